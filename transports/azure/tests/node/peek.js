// Prints the envelope of the first message, and what a reader gets of it.
const { QueueServiceClient } = require("@azure/storage-queue");

async function main([account, queue]) {
  const client = QueueServiceClient.fromConnectionString(account).getQueueClient(queue);
  const [message] = (await client.peekMessages()).peekedMessageItems;
  const envelope = JSON.parse(message.messageText);
  const body = Buffer.from(envelope.body, "base64").toString();
  const expires = message.expiresOn.getUTCFullYear();
  console.log(JSON.stringify({ id: envelope.id, body, envelope, expires }));
}

main(process.argv.slice(2));
