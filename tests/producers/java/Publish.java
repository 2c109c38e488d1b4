import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/** Publishes with kafka-clients: `java Publish RUN`. */
public class Publish {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    JsonNode run = JSON.readTree(new File(arguments[0]));
    boolean transactional = !run.get("transactional_id").isNull();
    Properties settings = new Properties();
    settings.putAll(
        Map.of(
            "bootstrap.servers", run.get("bootstrap").asText(),
            "compression.type", run.get("codec").asText(),
            "acks", "all",
            "enable.idempotence", "true",
            "linger.ms", "50"));
    if (transactional) {
      settings.put("transactional.id", run.get("transactional_id").asText());
    }
    try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
      if (transactional) {
        producer.initTransactions();
        producer.beginTransaction();
        publish(producer, run, "aborted");
        producer.abortTransaction();
        producer.beginTransaction();
      }
      publish(producer, run, "events");
      if (transactional) {
        producer.commitTransaction();
      }
    }
  }

  private static void publish(KafkaProducer<String, String> producer, JsonNode run, String which) throws Exception {
    List<Future<RecordMetadata>> pending = new ArrayList<>();
    for (JsonNode each : run.get(which)) {
      String value = JSON.writeValueAsString(each.get("event"));
      var record = new ProducerRecord<>(run.get("topic").asText(), each.get("key").asText(), value);
      record.headers().add("content-type", "application/cloudevents+json".getBytes(StandardCharsets.UTF_8));
      pending.add(producer.send(record));
    }
    producer.flush();
    for (var sent : pending) {
      sent.get();
    }
  }
}
