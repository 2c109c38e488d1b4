// Publishes and reads with franz-go: `producers publish RUN` and `producers read BOOTSTRAP TOPIC`.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type record struct {
	Key   string         `json:"key"`
	Event map[string]any `json:"event"`
}

type run struct {
	Bootstrap       string   `json:"bootstrap"`
	Topic           string   `json:"topic"`
	Codec           string   `json:"codec"`
	TransactionalID *string  `json:"transactional_id"`
	Aborted         []record `json:"aborted"`
	Events          []record `json:"events"`
}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	switch os.Args[1] {
	case "publish":
		check(publish(ctx, os.Args[2]))
	case "read":
		check(read(ctx, os.Args[2], os.Args[3]))
	}
}

func publish(ctx context.Context, file string) error {
	run, err := readRun(file)
	if err != nil {
		return err
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(run.Bootstrap),
		kgo.DefaultProduceTopic(run.Topic),
		kgo.ProducerBatchCompression(codecs[run.Codec]),
		// The default is 1,000,012 bytes for the whole batch.
		kgo.ProducerBatchMaxBytes(1_048_576),
		kgo.ProducerLinger(50 * time.Millisecond),
	}
	if run.TransactionalID != nil {
		options = append(options, kgo.TransactionalID(*run.TransactionalID))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	if run.TransactionalID == nil {
		return send(ctx, client, run.Events)
	}
	if err := transaction(ctx, client, run.Aborted, kgo.TryAbort); err != nil {
		return err
	}
	return transaction(ctx, client, run.Events, kgo.TryCommit)
}

func readRun(file string) (run, error) {
	var found run
	content, err := os.ReadFile(file)
	if err != nil {
		return found, err
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	// Else revisions become float64, which loses digits beyond 2^53.
	decoder.UseNumber()
	return found, decoder.Decode(&found)
}

func transaction(ctx context.Context, client *kgo.Client, records []record, end kgo.TransactionEndTry) error {
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	if err := send(ctx, client, records); err != nil {
		return err
	}
	return client.EndTransaction(ctx, end)
}

func send(ctx context.Context, client *kgo.Client, records []record) error {
	messages := make([]*kgo.Record, 0, len(records))
	for _, each := range records {
		value, err := json.Marshal(each.Event)
		if err != nil {
			return err
		}
		messages = append(messages, &kgo.Record{
			Key:     []byte(each.Key),
			Value:   value,
			Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/cloudevents+json")}},
		})
	}
	return client.ProduceSync(ctx, messages...).FirstErr()
}

// read prints the records that are in the topic when it begins, as JSON lines.
func read(ctx context.Context, bootstrap, topic string) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	ends, err := endOffsets(ctx, client, topic)
	if err != nil {
		return err
	}
	for len(ends) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, each := range fetches.Records() {
			line, err := json.Marshal(map[string]any{"key": string(each.Key), "event": json.RawMessage(each.Value)})
			if err != nil {
				return err
			}
			fmt.Println(string(line))
			if each.Offset+1 >= ends[each.Partition] {
				delete(ends, each.Partition)
			}
		}
	}
	return nil
}

// endOffsets returns the end of each partition that has records.
func endOffsets(ctx context.Context, client *kgo.Client, topic string) (map[int32]int64, error) {
	metadata := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = kmsg.StringPtr(topic)
	metadata.Topics = append(metadata.Topics, asked)
	described, err := metadata.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	request := kmsg.NewPtrListOffsetsRequest()
	wanted := kmsg.NewListOffsetsRequestTopic()
	wanted.Topic = topic
	for _, each := range described.Topics[0].Partitions {
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Partition, partition.Timestamp = each.Partition, -1
		wanted.Partitions = append(wanted.Partitions, partition)
	}
	request.Topics = append(request.Topics, wanted)
	ends := map[int32]int64{}
	for _, shard := range client.RequestSharded(ctx, request) {
		if shard.Err != nil {
			return nil, shard.Err
		}
		for _, each := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
			if err := kerr.ErrorForCode(each.ErrorCode); err != nil {
				return nil, err
			}
			if each.Offset > 0 {
				ends[each.Partition] = each.Offset
			}
		}
	}
	return ends, nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
