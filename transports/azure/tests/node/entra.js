// Stands in for Entra ID and for the identity endpoint of Azure App Service, which a test machine cannot reach.
// Prints its port. Tokens have the claims of real ones and no signature; Azurite checks everything but that.
const { readFileSync } = require("fs");

const [folder, secret] = process.argv.slice(2);
const options = { key: readFileSync(`${folder}/server.key`), cert: readFileSync(`${folder}/server.pem`) };

function token() {
  const now = Math.floor(Date.now() / 1000);
  const claims = { aud: "https://storage.azure.com", iss: "https://sts.windows.net/tenant/", iat: now, nbf: now, exp: now + 3600 };
  const part = (it) => Buffer.from(JSON.stringify(it)).toString("base64url");
  return { access_token: `${part({ alg: "none" })}.${part(claims)}.x`, token_type: "Bearer", resource: "https://storage.azure.com", expires_in: 3600, expires_on: String(now + 3600) };
}

function isKnown(request, body) {
  if (request.url.startsWith("/identity")) return request.headers["x-identity-header"] === secret;
  const form = new URLSearchParams(body);
  const isStorage = form.get("scope") === "https://storage.azure.com/.default" && form.get("client_id") === "client";
  return isStorage && [form.get("client_secret"), form.get("client_assertion")].includes(secret);
}

const server = require("https").createServer(options, (request, response) => {
  let body = "";
  request.on("data", (part) => (body += part));
  request.on("end", () => {
    const known = isKnown(request, body);
    const refusal = { error: "invalid_client", error_codes: [7000215], error_description: `CANARY ${body}` };
    response.writeHead(known ? 200 : 401, { "content-type": "application/json" });
    response.end(JSON.stringify(known ? token() : refusal));
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.resume().on("end", () => process.exit());
