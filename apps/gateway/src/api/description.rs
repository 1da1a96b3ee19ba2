//! `/openapi.json`: generated from the handlers, and from the types of requests and answers.

use std::sync::LazyLock;

use axum::response::IntoResponse;
use bytes::Bytes;
use http::{StatusCode, header};
use utoipa::{
    Modify, Number, OpenApi,
    openapi::{
        self, AllOfBuilder, ContentBuilder, ObjectBuilder, OneOfBuilder, Ref, RefOr,
        ResponseBuilder, Schema,
        path::{Operation, Parameter, PathItem},
        schema::{AnyOfBuilder, Array, KnownFormat, SchemaFormat, SchemaType, Type},
        security::{Http, HttpAuthScheme, SecurityScheme},
    },
};

use crate::api_types::Problem;

/// What the handlers do not say of themselves.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Bezoar",
        description = "Accepts messages, delivers them to HTTP endpoints, and manages dead letters."
    ),
    components(schemas(Problem)),
    security(("token" = [])),
    modifiers(&TokenScheme)
)]
pub(super) struct Description;

struct TokenScheme;

impl Modify for TokenScheme {
    fn modify(&self, api: &mut openapi::OpenApi) {
        let token = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        api.components.get_or_insert_default().add_security_scheme("token", token);
    }
}

/// Returns this description.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "get_description", tag = "gateway", security(()),
    responses((status = 200, description = "An OpenAPI description.", body = serde_json::Value))
)]
pub(super) async fn openapi() -> impl IntoResponse {
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
        let text = description().to_json().expect("a description has only text as keys");
        text.into()
    });
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.clone())
}

/// The whole description.
fn description() -> openapi::OpenApi {
    let mut api = super::described_routes().into_openapi();
    for item in api.paths.paths.values_mut() {
        for operation in operations(item) {
            add_problems(operation);
            operation.parameters.iter_mut().flatten().for_each(limit_parameter);
        }
    }
    accept_any_item(&mut api);
    accept_empty_import(&mut api);
    for (name, schema) in &mut api.components.get_or_insert_default().schemas {
        if let RefOr::T(schema) = schema {
            complete(name, schema);
        }
    }
    api
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete]
        .into_iter()
        .filter_map(Option::as_mut)
}

/// Adds the problems that every operation of its kind may answer with.
fn add_problems(operation: &mut Operation) {
    let parameters = operation.parameters.as_deref().unwrap_or_default();
    let is_open = operation.security.is_some();
    let mut statuses = vec![StatusCode::SERVICE_UNAVAILABLE];
    if !is_open {
        statuses.extend([StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN]);
    }
    if !parameters.is_empty() {
        statuses.extend([StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND]); // an id or cursor may be unknown
    }
    if operation.request_body.is_some() {
        statuses.extend([
            StatusCode::BAD_REQUEST,
            StatusCode::NOT_FOUND,
            StatusCode::REQUEST_TIMEOUT,
            StatusCode::CONFLICT,
            StatusCode::PAYLOAD_TOO_LARGE,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            StatusCode::INSUFFICIENT_STORAGE,
        ]);
    }
    for status in statuses {
        let known = &mut operation.responses.responses;
        known.entry(status.as_str().to_owned()).or_insert_with(|| problem(status));
    }
}

fn problem(status: StatusCode) -> RefOr<openapi::Response> {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let response = ResponseBuilder::new()
        .description(status.canonical_reason().unwrap_or("Problem"))
        .content("application/problem+json", content);
    response.build().into()
}

/// Answers whose members may be absent.
const PARTIAL: [&str; 2] = ["Problem", "Revealed"];
/// Parts of requests that are not named after one.
const PARTS_OF_REQUESTS: [&str; 2] = ["BatchItem", "DeadLetterFilter"];

/// Adds what the types cannot say: every member of an answer is present, and which members of a request go together.
fn complete(name: &str, schema: &mut Schema) {
    match name {
        "ReplayRequest" => {
            limit_members(schema);
            *schema = both(schema.clone(), selection());
        }
        "DiscardRequest" => {
            limit_members(schema);
            *schema = both(both(schema.clone(), selection()), expected_or_planned());
        }
        "BatchItem" => *schema = both(schema.clone(), one_body()),
        "DeadLetterFilter" => limit_members(schema),
        _ if name.ends_with("Request") => limit_members(schema),
        _ if PARTIAL.contains(&name) || PARTS_OF_REQUESTS.contains(&name) => (),
        _ => require_all(schema),
    }
}

/// A reason is one line that is not blank; a number fits into its type.
fn limit_members(schema: &mut Schema) {
    let Schema::Object(object) = schema else { return };
    for (name, member) in &mut object.properties {
        if let RefOr::T(Schema::Object(member)) = member {
            limit_number(member);
            if name == "reason" {
                (member.min_length, member.max_length) = (Some(1), Some(500));
                member.pattern = Some(ONE_LINE.to_owned());
            }
        }
    }
}

/// No control characters, and not only blanks.
const ONE_LINE: &str = r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$";

fn limit_parameter(parameter: &mut RefOr<Parameter>) {
    if let RefOr::T(Parameter { schema: Some(RefOr::T(Schema::Object(schema))), .. }) = parameter {
        limit_number(schema);
        // A parameter is absent, never null: in a URL or header that would be a text.
        if let SchemaType::Array(types) = &schema.schema_type
            && let Some(only) = types.iter().find(|it| **it != Type::Null)
        {
            schema.schema_type = SchemaType::Type(only.clone());
        }
    }
}

fn limit_number(schema: &mut openapi::Object) {
    let largest = match &schema.format {
        Some(SchemaFormat::KnownFormat(KnownFormat::Int32)) => u32::MAX as usize,
        Some(SchemaFormat::KnownFormat(KnownFormat::Int64)) => u64::MAX as usize,
        _ => return,
    };
    schema.maximum.get_or_insert(Number::UInt(largest));
}

/// Says that an invalid message is refused alone: an array of anything is a batch.
fn accept_any_item(api: &mut openapi::OpenApi) {
    let path = api.paths.paths.get_mut("/v1/queues/{queue}/batches");
    let body = path.and_then(|it| it.post.as_mut()).and_then(|it| it.request_body.as_mut());
    let Some(RefOr::T(body)) = body else { return };
    let anything = ObjectBuilder::new().schema_type(SchemaType::AnyValue).build();
    let item = AnyOfBuilder::new().item(Ref::from_schema_name("BatchItem")).item(anything).build();
    for content in body.content.values_mut() {
        if let RefOr::T(content) = content {
            content.schema = Some(Array::new(Schema::AnyOf(item.clone())).into());
        }
    }
}

/// An import without lines imports nothing.
fn accept_empty_import(api: &mut openapi::OpenApi) {
    let path = api.paths.paths.get_mut("/v1/imports");
    let body = path.and_then(|it| it.post.as_mut()).and_then(|it| it.request_body.as_mut());
    if let Some(RefOr::T(body)) = body {
        body.required = Some(openapi::Required::False);
    }
}

fn require_all(schema: &mut Schema) {
    match schema {
        Schema::Object(object) => object.required = object.properties.keys().cloned().collect(),
        Schema::AllOf(all) => {
            for item in &mut all.items {
                if let RefOr::T(item) = item {
                    require_all(item);
                }
            }
        }
        _ => (),
    }
}

fn both(one: Schema, other: Schema) -> Schema {
    AllOfBuilder::new().item(one).item(other).build().into()
}

/// Either `ids` or `filter`.
fn selection() -> Schema {
    let ids =
        given("ids", Schema::Array(Array::new(ObjectBuilder::new().schema_type(Type::String))));
    let filter = given("filter", Ref::from_schema_name("DeadLetterFilter"));
    let only = |given: ObjectBuilder, other: &str| given.property(other, null()).build();
    OneOfBuilder::new().item(only(ids, "filter")).item(only(filter, "ids")).build().into()
}

/// Either `expect`, or only a plan.
fn expected_or_planned() -> Schema {
    let number = ObjectBuilder::new().schema_type(Type::Integer).build();
    let yes = ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([true])).build();
    AnyOfBuilder::new()
        .item(given("expect", number).build())
        .item(given("plan", yes).build())
        .build()
        .into()
}

/// Either `body` or `body_base64`.
fn one_body() -> Schema {
    let base64 = ObjectBuilder::new().schema_type(Type::String).build();
    OneOfBuilder::new()
        .item(ObjectBuilder::new().required("body").property("body_base64", null()).build())
        .item(given("body_base64", base64).build())
        .build()
        .into()
}

fn given(name: &str, schema: impl Into<RefOr<Schema>>) -> ObjectBuilder {
    ObjectBuilder::new().property(name, schema).required(name)
}

fn null() -> openapi::Object {
    ObjectBuilder::new().schema_type(Type::Null).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_own_id_and_a_described_success() {
        let mut api = description();
        let mut ids = Vec::new();
        for (path, item) in &mut api.paths.paths {
            for operation in operations(item) {
                ids.push(operation.operation_id.clone().unwrap());
                let summary = operation.summary.as_deref().unwrap_or_default();
                assert!(summary.ends_with('.'), "{path} has no summary: {summary:?}");
                let success =
                    operation.responses.responses.iter().find(|(it, _)| it.starts_with('2'));
                let Some((_, RefOr::T(success))) = success else { panic!("{path} never succeeds") };
                assert!(!success.content.is_empty(), "{path} does not describe its answer");
            }
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "an operation id is used twice");
    }

    #[test]
    fn every_member_of_an_answer_is_required() {
        let api = description();
        let schemas = &api.components.as_ref().unwrap().schemas;
        let RefOr::T(Schema::Object(queue)) = &schemas["QueueStatus"] else { panic!("no object") };
        assert_eq!(queue.required.len(), queue.properties.len());
    }
}
