// amqplib and undici: posts what is in a queue to an endpoint, and acknowledges each once it was answered.
//
// The endpoint does the timing; this ends when all are acknowledged.

import { parseArgs } from "node:util";
import { readFileSync } from "node:fs";
import amqp from "amqplib";
import { Pool } from "undici";

const { dependencies } = JSON.parse(readFileSync(new URL("package.json", import.meta.url)));
const { values } = parseArgs({
  options: {
    url: { type: "string" },
    queue: { type: "string" },
    messages: { type: "string" },
    prefetch: { type: "string" },
    endpoint: { type: "string" },
  },
});
const inFlight = Number(values.prefetch);
const pool = new Pool(values.endpoint, { connections: inFlight });
const connection = await amqp.connect(values.url);
const channel = await connection.createChannel();
await channel.prefetch(inFlight);

const started = process.hrtime.bigint();
let left = Number(values.messages);
await new Promise((resolve, reject) =>
  channel.consume(values.queue, async (message) => {
    try {
      const { statusCode, body } = await pool.request({ path: "/", method: "POST", body: message.content });
      await body.dump();
      if (statusCode !== 200) throw new Error(`answered ${statusCode}`);
      channel.ack(message);
      left -= 1;
      if (left === 0) resolve();
    } catch (error) {
      reject(error);
    }
  }),
);
const { messageCount } = await channel.checkQueue(values.queue);
const seconds = Number(process.hrtime.bigint() - started) / 1e9;
await connection.close();
await pool.close();
if (messageCount !== 0) throw new Error(`${messageCount} messages were left`);
const settings = `amqplib ${dependencies.amqplib}, undici ${dependencies.undici}, Node ${process.version}, ${inFlight} in flight`;
console.log(JSON.stringify({ peer: "amqplib-http", processed_per_second: Number(values.messages) / seconds, settings }));
