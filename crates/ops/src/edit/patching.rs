//! Applies a JSON patch (RFC 6902) at a cost that is proportional to body and patch.
//!
//! The semantics are those of the crate `json_patch`; a property test compares the two. This module adds accounting:
//! the size of the written document is known after every operation without writing it. An operation measures only the
//! values that it creates or drops. A value is dropped once, so the total cost is at most that of body, patch and
//! copies. Copies and elements shifted within arrays are counted against a limit, because each of 1,000 short
//! operations can copy or shift a whole body. Values are counted, because many short ones take much more memory than
//! their text. The depth is limited too: writing or dropping a document that nests
//! deeply enough overflows the stack.

use json_patch::{
    PatchOperation,
    jsonptr::{Pointer, Token},
};
use serde_json::{Map, Value};

use super::{
    EditError, VALUE_LIMIT,
    measure::{depth, size, text_size, values},
};

/// How many bytes may be copied, and elements shifted, for each byte that a body may have.
const WORK_PER_BYTE: usize = 16;
/// How deep a document may nest: as deep as `serde_json` reads.
const DEPTH_LIMIT: usize = 127;

/// A document that is being patched. After an error its state is undefined and it must be dropped.
#[derive(Debug)]
pub(super) struct Patching {
    value: Value,
    /// The size of the document as it is written.
    bytes: usize,
    /// An upper bound of the nesting depth. The depth is measured before an operation is refused
    /// because of it.
    depth: usize,
    /// An upper bound of the number of values.
    values: usize,
    /// How many bytes were copied and elements shifted.
    work: usize,
    limit: usize,
}

/// Why an operation failed.
#[derive(Debug)]
enum Stop {
    /// The operation does not apply to the document: a value is missing or differs.
    Inapplicable,
    /// It costs too much.
    TooMuchWork,
    /// The document would nest too deep.
    TooDeep,
    /// The document could have too many values.
    TooManyValues,
}

impl Patching {
    /// A document whose written form has `bytes` bytes, and may have at most `limit` bytes once it grows.
    pub(super) fn new(value: Value, bytes: usize, limit: usize) -> Self {
        Self { depth: depth(&value), values: values(&value), value, bytes, work: 0, limit }
    }

    /// Carries out one operation of the patch, the one at `place`.
    pub(super) fn apply(
        &mut self,
        place: usize,
        operation: &PatchOperation,
    ) -> Result<(), EditError> {
        let before = self.bytes;
        self.carry_out(operation).and_then(|()| self.check_depth()).map_err(|stop| match stop {
            Stop::Inapplicable => EditError::Patch(place),
            Stop::TooMuchWork => EditError::TooMuchWork(place),
            Stop::TooDeep => EditError::TooDeep(DEPTH_LIMIT),
            Stop::TooManyValues => EditError::TooManyValues(VALUE_LIMIT),
        })?;
        if self.bytes > before && self.bytes > self.limit {
            return Err(EditError::TooLarge { actual: self.bytes, limit: self.limit });
        }
        Ok(())
    }

    /// The patched document.
    pub(super) fn into_value(self) -> Value {
        self.value
    }

    fn carry_out(&mut self, operation: &PatchOperation) -> Result<(), Stop> {
        match operation {
            // Costs at most the expected value: comparing ends where the two differ.
            PatchOperation::Test(test) => {
                let target = self.value.pointer(test.path.as_str());
                (target == Some(&test.value)).then_some(()).ok_or(Stop::Inapplicable)
            }
            PatchOperation::Add(add) => {
                self.created(&add.path, &add.value);
                self.attach(&add.path, add.value.clone())
            }
            PatchOperation::Replace(replace) => {
                self.created(&replace.path, &replace.value);
                let target = self.value.pointer_mut(replace.path.as_str());
                let target = target.ok_or(Stop::Inapplicable)?;
                self.bytes -= size(&std::mem::replace(target, replace.value.clone()));
                Ok(())
            }
            PatchOperation::Remove(remove) => {
                let removed = self.detach(&remove.path)?;
                self.bytes -= size(&removed);
                Ok(())
            }
            PatchOperation::Move(moved) => {
                let into_itself =
                    moved.path.starts_with(&moved.from) && moved.path.len() != moved.from.len();
                if into_itself {
                    return Err(Stop::Inapplicable);
                }
                self.nest(&moved.from, &moved.path);
                let value = self.detach(&moved.from)?;
                self.attach(&moved.path, value)
            }
            PatchOperation::Copy(copy) => {
                let source = self.value.pointer(copy.from.as_str()).ok_or(Stop::Inapplicable)?;
                let bytes = size(source);
                charge(&mut self.work, bytes, self.limit)?;
                self.values += values(source);
                if self.values > VALUE_LIMIT {
                    return Err(Stop::TooManyValues);
                }
                let source = source.clone();
                self.bytes += bytes;
                self.nest(&copy.from, &copy.path);
                self.attach(&copy.path, source)
            }
        }
    }

    /// Counts a value that the patch contains.
    fn created(&mut self, path: &Pointer, value: &Value) {
        self.bytes += size(value);
        self.values += values(value);
        self.depth = self.depth.max(path.count() + depth(value));
    }

    /// Updates the depth bound for a part of the document that is moved or copied to another place.
    fn nest(&mut self, from: &Pointer, path: &Pointer) {
        let part = self.depth.saturating_sub(from.count());
        self.depth = self.depth.max(path.count() + part);
    }

    /// Measures the depth if its bound is too large, because moving back and forth raises the bound but not
    /// the depth.
    fn check_depth(&mut self) -> Result<(), Stop> {
        if self.depth > DEPTH_LIMIT {
            charge(&mut self.work, self.bytes, self.limit)?;
            self.depth = depth(&self.value);
        }
        if self.depth > DEPTH_LIMIT { Err(Stop::TooDeep) } else { Ok(()) }
    }

    /// Inserts a value that is already counted, and counts the name and punctuation around it.
    fn attach(&mut self, path: &Pointer, value: Value) -> Result<(), Stop> {
        let Some((parent, last)) = path.split_back() else {
            self.bytes -= size(&std::mem::replace(&mut self.value, value));
            return Ok(());
        };
        match self.value.pointer_mut(parent.as_str()) {
            Some(Value::Object(members)) => {
                let name = last.decoded().into_owned();
                let around = text_size(&name) + ":".len() + comma(members.len());
                match members.insert(name, value) {
                    Some(replaced) => self.bytes -= size(&replaced),
                    None => self.bytes += around,
                }
                Ok(())
            }
            Some(Value::Array(elements)) => {
                let index =
                    last.to_index().ok().and_then(|it| it.for_len_incl(elements.len()).ok());
                let index = index.ok_or(Stop::Inapplicable)?;
                charge(&mut self.work, elements.len() - index, self.limit)?;
                self.bytes += comma(elements.len());
                elements.insert(index, value);
                Ok(())
            }
            _ => Err(Stop::Inapplicable),
        }
    }

    /// Removes a value from the document. The value stays counted; the name and punctuation around it do
    /// not.
    fn detach(&mut self, path: &Pointer) -> Result<Value, Stop> {
        let (parent, last) = path.split_back().ok_or(Stop::Inapplicable)?;
        match self.value.pointer_mut(parent.as_str()) {
            Some(Value::Object(members)) => {
                let (value, around) = take_member(members, &last).ok_or(Stop::Inapplicable)?;
                self.bytes -= around;
                Ok(value)
            }
            Some(Value::Array(elements)) => {
                let index = last.to_index().ok().and_then(|it| it.for_len(elements.len()).ok());
                let index = index.ok_or(Stop::Inapplicable)?;
                charge(&mut self.work, elements.len() - index, self.limit)?;
                let value = elements.remove(index);
                self.bytes -= comma(elements.len());
                Ok(value)
            }
            _ => Err(Stop::Inapplicable),
        }
    }
}

/// Removes a member; returns it and the size of its name, colon and comma.
fn take_member(members: &mut Map<String, Value>, name: &Token<'_>) -> Option<(Value, usize)> {
    let name = name.decoded();
    let value = members.remove(name.as_ref())?;
    Some((value, text_size(&name) + ":".len() + comma(members.len())))
}

/// The size of the comma for one more element: needed if there are others.
fn comma(others: usize) -> usize {
    usize::from(others > 0)
}

/// Counts work before it is done, so that the operation that exceeds the limit is not executed either.
fn charge(work: &mut usize, more: usize, limit: usize) -> Result<(), Stop> {
    *work = work.saturating_add(more);
    if *work > limit.saturating_mul(WORK_PER_BYTE) { Err(Stop::TooMuchWork) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
