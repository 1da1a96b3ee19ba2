// Sends plain and base64 texts; prints the id of each, and the body that a reader should get.
const { QueueServiceClient } = require("@azure/storage-queue");

async function main([account, queue]) {
  const client = QueueServiceClient.fromConnectionString(account).getQueueClient(queue);
  const bodies = ["hello", "St. Mary's é 🏥", '{"RetryCount": 2}', "  spaced  ", "a & b < c", "test"];
  const sent = [];
  for (const encode of [(body) => body, (body) => Buffer.from(body).toString("base64")]) {
    for (const body of bodies) {
      const { messageId } = await client.sendMessage(encode(body));
      sent.push({ id: messageId, body });
    }
  }
  console.log(JSON.stringify(sent));
}

main(process.argv.slice(2));
