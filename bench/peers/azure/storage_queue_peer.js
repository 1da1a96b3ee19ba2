// Times Microsoft's client for Node: put a message, receive one, delete it, several at a time.

import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { QueueServiceClient } from "@azure/storage-queue";

const packages = JSON.parse(readFileSync(new URL("package.json", import.meta.url)));
const version = packages.dependencies["@azure/storage-queue"];
const text = { type: "string" };
const { values } = parseArgs({ options: { account: text, queue: text, messages: text, concurrency: text, bytes: text } });
const [messages, concurrency] = [Number(values.messages), Number(values.concurrency)];
const body = Buffer.alloc(Number(values.bytes), "x").toString("base64");
const queue = QueueServiceClient.fromConnectionString(values.account).getQueueClient(values.queue);

async function work(count) {
  for (let done = 0; done < count; done += 1) {
    await queue.sendMessage(body);
    let received;
    do received = (await queue.receiveMessages()).receivedMessageItems[0];
    while (!received);
    await queue.deleteMessage(received.messageId, received.popReceipt);
  }
}

await queue.createIfNotExists();
const started = process.hrtime.bigint();
await Promise.all(Array.from({ length: concurrency }, () => work(messages / concurrency)));
const seconds = Number(process.hrtime.bigint() - started) / 1e9;
await queue.delete();
const settings = `@azure/storage-queue ${version}, Node ${process.version}, ${concurrency} at a time, ${messages} messages`;
console.log(JSON.stringify({ peer: "node", processed_per_second: messages / seconds, settings }));
