//! Certificates for tests with TLS, created with the program `openssl`.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

/// Writes a certificate authority (`ca`), certificates of it for `localhost` (`server`) and for a client (`client`), and
/// an unrelated authority (`stranger`): each as `NAME.pem`, with its key in `NAME.key`.
///
/// # Errors
///
/// If `openssl` is missing or fails.
pub fn create(folder: &Path) -> Result<()> {
    fs::write(folder.join("openssl.cnf"), "[req]\ndistinguished_name=dn\n[dn]\n")?;
    let authority = ["-addext", "basicConstraints=critical,CA:TRUE"];
    create_one(folder, "ca", &authority)?;
    create_one(folder, "stranger", &authority)?;
    let signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=CA:FALSE"];
    let names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
    create_one(folder, "server", &[signed.as_slice(), &names].concat())?;
    create_one(folder, "client", &signed)
}

fn create_one(folder: &Path, name: &str, more: &[&str]) -> Result<()> {
    let (key, pem, subject) = (format!("{name}.key"), format!("{name}.pem"), format!("/CN={name}"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-config", "openssl.cnf", "-newkey", "ec"]);
    openssl.args(["-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]);
    openssl.args(["-keyout", &key, "-out", &pem, "-subj", &subject]).args(more);
    let done = openssl.current_dir(folder).output().context("cannot start openssl")?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}
