//! The requests on one blob container: the few that a claim check needs, on the official crate's pipeline.

use std::{fmt, sync::Arc};

use azure_core::http::{Context, Method, Pipeline, RawResponse, Request, Url};
use bytes::Bytes;
use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};
use serde::Deserialize;

use crate::{
    connection::service::{API_VERSION, Requests},
    error::{Fault, FaultKind},
};

/// The account's Blob Storage.
#[derive(Clone)]
pub(crate) struct BlobStorage {
    /// The endpoint, with the shared access signature if there is one.
    url: Url,
    pipeline: Arc<Pipeline>,
    requests: Requests,
}

pub(crate) struct BlobContainer {
    /// The URL of the container, with the shared access signature if there is one.
    url: Url,
    storage: BlobStorage,
}

/// A blob in a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListedBlob {
    pub(crate) name: String,
    /// When it was stored or marked; `None` if that cannot be read.
    pub(crate) changed_at: Option<Timestamp>,
    /// The version of the blob and its mark.
    pub(crate) etag: String,
    /// The poison queue whose letter it belongs to.
    pub(crate) dead_in: Option<String>,
}

impl fmt::Debug for BlobStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlobStorage(..)")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listing {
    blobs: Blobs,
    #[serde(default)]
    next_marker: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Blobs {
    #[serde(default)]
    blob: Vec<Blob>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Blob {
    name: String,
    properties: Properties,
    #[serde(default)]
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct Properties {
    #[serde(rename = "Last-Modified")]
    last_modified: String,
    #[serde(rename = "Etag")]
    etag: String,
}

#[derive(Deserialize, Default)]
struct Metadata {
    #[serde(default)]
    dead: Option<String>,
}

impl BlobStorage {
    pub(crate) fn new(url: Url, pipeline: Pipeline, requests: Requests) -> Self {
        Self { url, pipeline: Arc::new(pipeline), requests }
    }

    pub(crate) fn container(&self, name: &str) -> BlobContainer {
        let mut url = self.url.clone();
        url.path_segments_mut().expect("an http URL has a path").pop_if_empty().push(name);
        BlobContainer { url, storage: self.clone() }
    }
}

impl BlobContainer {
    /// Creates the container unless it exists.
    pub(crate) async fn create(&self) -> Result<(), Fault> {
        let request = Request::new(self.with_query(&[("restype", "container")]), Method::Put);
        match self.send(request).await {
            Err(fault) if fault.kind != FaultKind::AlreadyExists => Err(fault),
            _ => Ok(()),
        }
    }

    pub(crate) async fn exists(&self) -> Result<bool, Fault> {
        let request = Request::new(self.with_query(&[("restype", "container")]), Method::Get);
        match self.send(request).await {
            Err(Fault { kind: FaultKind::ContainerNotFound, .. }) => Ok(false),
            answered => answered.map(|_| true),
        }
    }

    pub(crate) async fn put(&self, name: &str, body: Bytes) -> Result<(), Fault> {
        let mut request = Request::new(self.blob(name), Method::Put);
        request.insert_header("x-ms-blob-type", "BlockBlob");
        request.insert_header("content-type", "application/octet-stream");
        request.set_body(body);
        self.send(request).await.map(drop)
    }

    pub(crate) async fn get(&self, name: &str) -> Result<Bytes, Fault> {
        let answer = self.send(Request::new(self.blob(name), Method::Get)).await?;
        Ok(answer.into_body().into())
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<(), Fault> {
        self.send(Request::new(self.blob(name), Method::Delete)).await.map(drop)
    }

    /// Deletes a blob unless it was changed or marked since it was listed; tells whether it was deleted.
    pub(crate) async fn delete_unchanged(&self, blob: &ListedBlob) -> Result<bool, Fault> {
        let mut request = Request::new(self.blob(&blob.name), Method::Delete);
        request.insert_header("if-match", format!("\"{}\"", blob.etag.trim_matches('"')));
        match self.send(request).await {
            // 412: it was changed. 404: somebody else deleted it.
            Err(Fault { kind: FaultKind::StaleReceipt | FaultKind::BlobNotFound, .. }) => Ok(false),
            deleted => deleted.map(|_| true),
        }
    }

    /// Marks a blob that belongs to a dead letter in this poison queue.
    pub(crate) async fn mark_dead(&self, name: &str, poison_queue: &str) -> Result<(), Fault> {
        let mut url = self.blob(name);
        url.query_pairs_mut().append_pair("comp", "metadata");
        let mut request = Request::new(url, Method::Put);
        request.insert_header("x-ms-meta-dead", poison_queue.to_owned());
        self.send(request).await.map(drop)
    }

    /// A page of the blobs, and the marker of the next page, which is empty after the last.
    pub(crate) async fn list(&self, marker: &str) -> Result<(Vec<ListedBlob>, String), Fault> {
        let page = self.page(marker).await?;
        Ok((page.blobs.blob.into_iter().map(ListedBlob::from).collect(), page.next_marker))
    }

    async fn page(&self, marker: &str) -> Result<Listing, Fault> {
        let query = [("restype", "container"), ("comp", "list"), ("include", "metadata")];
        let mut url = self.with_query(&query);
        if !marker.is_empty() {
            url.query_pairs_mut().append_pair("marker", marker);
        }
        let answer = self.send(Request::new(url, Method::Get)).await?;
        let unexpected = |_| Fault::new(FaultKind::Other, "the list of blobs cannot be read");
        azure_core::xml::from_xml(answer.into_body()).map_err(unexpected)
    }

    fn blob(&self, name: &str) -> Url {
        let mut url = self.url.clone();
        url.path_segments_mut().expect("an http URL has a path").push(name);
        url
    }

    fn with_query(&self, pairs: &[(&str, &str)]) -> Url {
        let mut url = self.url.clone();
        url.query_pairs_mut().extend_pairs(pairs);
        url
    }

    async fn send(&self, mut request: Request) -> Result<RawResponse, Fault> {
        request.insert_header("x-ms-version", API_VERSION);
        let context = Context::new();
        let storage = &self.storage;
        storage.requests.run(storage.pipeline.send(&context, &mut request, None)).await
    }
}

impl From<Blob> for ListedBlob {
    fn from(blob: Blob) -> Self {
        let Properties { last_modified, etag } = blob.properties;
        let changed_at = DateTimeParser::new().parse_timestamp(last_modified.as_bytes()).ok();
        let dead_in = blob.metadata.unwrap_or_default().dead;
        Self { name: blob.name, changed_at, etag, dead_in }
    }
}
