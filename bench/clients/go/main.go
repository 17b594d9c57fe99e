// Many workers share one gocql session, as it comes, and read one row again and again.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// latencies counts durations in buckets 1/16 apart, striped so that workers do not wait for each other.
type latencies struct {
	stripes [64][64 * 16]atomic.Uint64
}

func (l *latencies) record(worker int, elapsed time.Duration) {
	microseconds := uint64(elapsed.Microseconds()) | 1
	exponent := bits.Len64(microseconds) - 1
	fraction := microseconds << (63 - exponent) >> 59 & 15
	l.stripes[worker%64][uint64(exponent)*16+fraction].Add(1)
}

// quantile is the lower bound, in microseconds, of the bucket that holds the wanted share.
func (l *latencies) quantile(share float64) uint64 {
	var buckets [64 * 16]uint64
	var total uint64
	for stripe := range l.stripes {
		for bucket := range buckets {
			count := l.stripes[stripe][bucket].Load()
			buckets[bucket] += count
			total += count
		}
	}
	wanted := uint64(share * float64(total))
	for bucket, count := range buckets {
		if count > wanted {
			exponent, fraction := bucket/16, uint64(bucket%16)
			return 1<<exponent + fraction<<exponent>>4
		}
		wanted -= count
	}
	return 0
}

func prepare(session *gocql.Session) error {
	for _, statement := range []string{
		"CREATE KEYSPACE IF NOT EXISTS bench WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE IF NOT EXISTS bench.kv (k int PRIMARY KEY, v text)",
		"INSERT INTO bench.kv (k, v) VALUES (1, 'value')",
	} {
		if err := session.Query(statement).Exec(); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func main() {
	workers := flag.Int("workers", 50_000, "goroutines that share the session")
	queries := flag.Int("queries", 200, "reads of each")
	flag.Parse()
	cluster := gocql.NewCluster(os.Getenv("CQL_HOST"))
	cluster.Port, _ = strconv.Atoi(os.Getenv("CQL_PORT"))
	cluster.Consistency = gocql.One
	session, err := cluster.CreateSession()
	if err == nil {
		err = prepare(session)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var succeeded, failed atomic.Uint64
	var firstError atomic.Value
	var measured latencies
	var done sync.WaitGroup
	start := time.Now()
	for worker := 0; worker < *workers; worker++ {
		done.Add(1)
		go func() {
			defer done.Done()
			for query := 0; query < *queries; query++ {
				var value string
				begin := time.Now()
				if err := session.Query("SELECT v FROM bench.kv WHERE k = ?", 1).Scan(&value); err != nil {
					failed.Add(1)
					firstError.CompareAndSwap(nil, err.Error())
					continue
				}
				succeeded.Add(1)
				measured.record(worker, time.Since(begin))
			}
		}()
	}
	done.Wait()
	report, _ := json.Marshal(map[string]interface{}{
		"elapsed_ms": time.Since(start).Milliseconds(), "succeeded": succeeded.Load(), "failed": failed.Load(),
		"latency_us_p50": measured.quantile(0.5), "latency_us_p99": measured.quantile(0.99),
		"latency_us_p999": measured.quantile(0.999), "first_error": firstError.Load(),
	})
	fmt.Println(string(report))
}
