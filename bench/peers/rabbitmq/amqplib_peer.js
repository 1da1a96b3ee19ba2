// Times amqplib on a queue that was filled for it: do nothing, acknowledge each message.
//
// One `multiple` acknowledgement for a group of messages would be faster, but only a program whose messages never
// overlap can do that; amqplib's guide acknowledges each.

import { parseArgs } from "node:util";
import { readFileSync } from "node:fs";
import amqp from "amqplib";

const packages = JSON.parse(readFileSync(new URL("package.json", import.meta.url)));
const version = packages.dependencies.amqplib;
const { values } = parseArgs({
  options: { url: { type: "string" }, queue: { type: "string" }, messages: { type: "string" }, prefetch: { type: "string" } },
});
const messages = Number(values.messages);
const prefetch = Number(values.prefetch);

const connection = await amqp.connect(values.url);
const channel = await connection.createChannel();
await channel.prefetch(prefetch);

const started = process.hrtime.bigint();
let left = messages;
await new Promise((resolve) =>
  channel.consume(values.queue, (message) => {
    channel.ack(message);
    left -= 1;
    if (left === 0) resolve();
  }),
);
// The acknowledgements are before this in the same stream: an answer means that the broker has them.
const { messageCount } = await channel.checkQueue(values.queue);
const seconds = Number(process.hrtime.bigint() - started) / 1e9;
await connection.close();
if (messageCount !== 0) throw new Error(`${messageCount} messages were left`);
const settings = `amqplib ${version}, Node ${process.version}, prefetch ${prefetch}, an acknowledgement each, ${messages} messages`;
console.log(JSON.stringify({ peer: "amqplib", processed_per_second: messages / seconds, settings }));
