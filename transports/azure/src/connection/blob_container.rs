//! The requests on one blob container: the few that a claim check needs, on the official crate's pipeline.

use std::{fmt, sync::Arc, time::Duration};

use azure_core::http::{Context, Method, Pipeline, RawResponse, Request, Url};
use bezoar_core::Clock;
use bytes::Bytes;
use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};
use serde::Deserialize;

use crate::{
    connection::service::{API_VERSION, Requests},
    error::{Fault, FaultKind},
};

pub(crate) struct BlobContainer {
    /// The URL of the container, with the shared access signature if there is one.
    url: Url,
    pipeline: Pipeline,
    requests: Requests,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for BlobContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobContainer").finish_non_exhaustive()
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
}

#[derive(Deserialize, Default)]
struct Metadata {
    #[serde(default)]
    dead: Option<String>,
}

impl BlobContainer {
    pub(crate) fn new(
        url: Url,
        pipeline: Pipeline,
        requests: Requests,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { url, pipeline, requests, clock }
    }

    /// Creates the container unless it exists.
    pub(crate) async fn create(&self) -> Result<(), Fault> {
        let request = Request::new(self.with_query(&[("restype", "container")]), Method::Put);
        match self.send(request).await {
            Err(fault) if fault.kind != FaultKind::AlreadyExists => Err(fault),
            _ => Ok(()),
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

    /// Marks a blob that belongs to a dead letter.
    pub(crate) async fn mark_dead(&self, name: &str) -> Result<(), Fault> {
        let mut url = self.blob(name);
        url.query_pairs_mut().append_pair("comp", "metadata");
        let mut request = Request::new(url, Method::Put);
        request.insert_header("x-ms-meta-dead", "1");
        self.send(request).await.map(drop)
    }

    /// The names of the blobs that were stored longer ago than `age` and are not marked.
    pub(crate) async fn live_older_than(&self, age: Duration) -> Result<Vec<String>, Fault> {
        let before = self.clock.now().checked_sub(age).unwrap_or(Timestamp::MIN);
        let (mut names, mut marker) = (Vec::new(), String::new());
        loop {
            let page = self.page(&marker).await?;
            let old = page.blobs.blob.into_iter().filter(|it| it.is_orphan(before));
            names.extend(old.map(|it| it.name));
            marker = page.next_marker;
            if marker.is_empty() {
                return Ok(names);
            }
        }
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
        self.requests.run(self.pipeline.send(&context, &mut request, None)).await
    }
}

impl Blob {
    fn is_orphan(&self, before: Timestamp) -> bool {
        let stored =
            DateTimeParser::new().parse_timestamp(self.properties.last_modified.as_bytes());
        let is_dead = self.metadata.as_ref().is_some_and(|it| it.dead.is_some());
        !is_dead && stored.is_ok_and(|stored| stored < before)
    }
}
