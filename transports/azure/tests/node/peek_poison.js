// Prints the first record of a poison queue.
const { QueueServiceClient } = require("@azure/storage-queue");

async function main([account, queue]) {
  const client = QueueServiceClient.fromConnectionString(account).getQueueClient(queue);
  console.log((await client.peekMessages()).peekedMessageItems[0].messageText);
}

main(process.argv.slice(2));
