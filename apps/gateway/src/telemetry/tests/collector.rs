//! A real collector, only a small one: it takes OTLP over HTTP and remembers it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use prost::Message;

/// A request's path and body.
type Received = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// Listens on a free port until the test ends.
pub(super) struct Collector {
    pub(super) endpoint: String,
    received: Received,
}

impl Collector {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let received = Received::default();
        let memory = received.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let memory = memory.clone();
                std::thread::spawn(move || serve(&connection, &memory));
            }
        });
        Self { endpoint, received }
    }

    /// All that arrived at a path.
    fn bodies(&self, path: &str) -> Vec<Vec<u8>> {
        let received = self.received.lock().unwrap();
        received.iter().filter(|(at, _)| at == path).map(|(_, body)| body.clone()).collect()
    }

    /// Every byte that arrived.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.received.lock().unwrap().iter().flat_map(|(_, body)| body.clone()).collect()
    }

    pub(super) fn spans(&self) -> Vec<Span> {
        let decoded = |body: Vec<u8>| ExportTraceServiceRequest::decode(&*body).unwrap();
        let requests = self.bodies("/v1/traces").into_iter().map(decoded);
        let resources = requests.flat_map(|request| request.resource_spans);
        resources.flat_map(|it| it.scope_spans).flat_map(|it| it.spans).collect()
    }

    pub(super) fn metric_names(&self) -> Vec<String> {
        let decoded = |body: Vec<u8>| ExportMetricsServiceRequest::decode(&*body).unwrap();
        let requests = self.bodies("/v1/metrics").into_iter().map(decoded);
        let resources = requests.flat_map(|request| request.resource_metrics);
        let metrics = resources.flat_map(|it| it.scope_metrics).flat_map(|it| it.metrics);
        metrics.map(|metric| metric.name).collect()
    }
}

/// An attribute of a span, as text.
pub(super) fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|it| it.key == key)?;
    text(found)
}

fn text(attribute: &KeyValue) -> Option<String> {
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        Value::BoolValue(truth) => Some(truth.to_string()),
        other => panic!("no attribute of ours: {other:?}"),
    }
}

/// Answers requests on one connection until it is closed.
fn serve(connection: &TcpStream, memory: &Received) {
    let mut reader = BufReader::new(connection);
    while let Some((path, length)) = head(&mut reader) {
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        memory.lock().unwrap().push((path, body));
        let mut writer = connection;
        let reply =
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        writer.write_all(reply.as_bytes()).unwrap();
    }
}

fn head(reader: &mut impl BufRead) -> Option<(String, usize)> {
    let mut lines = reader.lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let length = |line: String| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    };
    let length = lines.filter_map(length).last()?;
    Some((path, length))
}
