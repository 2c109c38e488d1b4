// Publishes with kafkajs, alone or under the CloudEvents SDK of JavaScript: `node publish.mjs kafkajs|cloudevents RUN`.

import { readFileSync } from "node:fs";

import { compress as zstdCompress, decompress as zstdDecompress, init as initZstd } from "@bokuweb/zstd-wasm";
import { CloudEvent, Kafka as Binding } from "cloudevents";
import kafkajs from "kafkajs";
import { parse, stringify } from "lossless-json";
import lz4 from "lz4-napi";
import snappy from "snappy";

const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = kafkajs;
await initZstd();
CompressionCodecs[CompressionTypes.Snappy] = () => ({
  compress: ({ buffer }) => snappy.compress(buffer),
  decompress: (buffer) => snappy.uncompress(buffer),
});
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: ({ buffer }) => lz4.compressFrame(buffer),
  decompress: (buffer) => lz4.decompressFrame(buffer),
});
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async ({ buffer }) => Buffer.from(zstdCompress(buffer)),
  decompress: async (buffer) => Buffer.from(zstdDecompress(buffer)),
});

const [client, file] = process.argv.slice(2);
// Revisions beyond 2^53 - 1 lose digits in JSON.parse and JSON.stringify.
const run = parse(readFileSync(file, "utf8"));
const codecs = { none: "None", gzip: "GZIP", snappy: "Snappy", lz4: "LZ4", zstd: "ZSTD" };

function withKafkajs({ key, event }) {
  return { key, value: stringify(event), headers: { "content-type": "application/cloudevents+json" } };
}

function withCloudEvents({ key, event }) {
  const cloudEvent = new CloudEvent({ ...event, partitionkey: key });
  const message = run.mode === "binary" ? Binding.binary(cloudEvent) : Binding.structured(cloudEvent);
  // The SDK leaves the data of binary mode an object, and writes structured mode with JSON.stringify.
  const value = stringify(run.mode === "binary" ? cloudEvent.data : cloudEvent.toJSON());
  const headers = Object.fromEntries(Object.entries(message.headers).filter(([, header]) => header !== undefined));
  return { key: message.key, value, headers, timestamp: message.timestamp };
}

const kafka = new Kafka({ brokers: [run.bootstrap], logLevel: logLevel.ERROR });
const producer = kafka.producer({
  idempotent: true,
  maxInFlightRequests: 1,
  ...(run.transactional_id ? { transactionalId: run.transactional_id } : {}),
});
const toMessage = client === "cloudevents" ? withCloudEvents : withKafkajs;
const batch = (records) => ({
  topic: run.topic,
  acks: -1,
  compression: CompressionTypes[codecs[run.codec]],
  messages: records.map(toMessage),
});

await producer.connect();
try {
  if (run.transactional_id) {
    const aborted = await producer.transaction();
    await aborted.send(batch(run.aborted));
    await aborted.abort();
    const committed = await producer.transaction();
    await committed.send(batch(run.events));
    await committed.commit();
  } else {
    await producer.send(batch(run.events));
  }
} finally {
  await producer.disconnect();
}
