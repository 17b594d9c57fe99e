// One gocql session shared by many goroutines, each reading the same row again and again.
//
// The session is configured as the driver comes: only the host is set, and its connections where CLIENT_CONNECTIONS
// says how many. Where REQUESTS_PER_S is set, the reads of all goroutines together are spread evenly over time; a
// goroutine whose last read took longer does the next one at once. Prints one line of JSON.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

const (
	selectRow = "SELECT v FROM concurrent_client.rows WHERE k = ?"
	key       = "the only row"
	// Beyond these, errors are counted together: their texts may carry addresses.
	errorKindsMax = 20
)

// report is the line that the harness reads; latencies are those of successful reads.
type report struct {
	Client        string         `json:"client"`
	Workers       int            `json:"workers"`
	Queries       int            `json:"queries"`
	ElapsedS      float64        `json:"elapsed_s"`
	OK            int            `json:"ok"`
	Errors        map[string]int `json:"errors"`
	OpsPerS       float64        `json:"ops_per_s"`
	LatencyUsP50  int64          `json:"latency_us_p50"`
	LatencyUsP99  int64          `json:"latency_us_p99"`
	LatencyUsP999 int64          `json:"latency_us_p999"`
	// Of the process, while it measured.
	CPUUsPerOp float64 `json:"cpu_us_per_op"`
}

// worker owns what it measures; nothing is shared until all have ended.
type worker struct {
	latencies []int64
	errors    map[string]int
}

// run reads one after the other; pause is what lies between the intended starts, the first of which is at begin.
func (w *worker) run(session *gocql.Session, queries int, begin time.Time, pause time.Duration) {
	for i := 0; i < queries; i++ {
		if pause > 0 {
			time.Sleep(time.Until(begin.Add(time.Duration(i) * pause)))
		}
		start := time.Now()
		var value string
		err := session.Query(selectRow, key).Scan(&value)
		if err == nil {
			w.latencies = append(w.latencies, time.Since(start).Microseconds())
			continue
		}
		if w.errors == nil {
			w.errors = make(map[string]int)
		}
		w.errors[kind(err)]++
	}
}

// kind names an error without what differs from one request to the next.
func kind(err error) string {
	var refused gocql.RequestError
	if errors.As(err, &refused) {
		return fmt.Sprintf("server error 0x%04x", refused.Code())
	}
	var network *net.OpError
	if errors.As(err, &network) {
		return "network " + network.Op
	}
	return err.Error()
}

func prepareData(address string) error {
	session, err := gocql.NewCluster(address).CreateSession()
	if err != nil {
		return err
	}
	defer session.Close()
	for _, statement := range []string{
		"CREATE KEYSPACE IF NOT EXISTS concurrent_client WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE IF NOT EXISTS concurrent_client.rows (k text PRIMARY KEY, v text)",
		"INSERT INTO concurrent_client.rows (k, v) VALUES ('" + key + "', 'its value')",
	} {
		if err := session.Query(statement).Exec(); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func measure(address string, workers, queries int) (report, error) {
	cluster := gocql.NewCluster(address)
	if connections := os.Getenv("CLIENT_CONNECTIONS"); connections != "" {
		cluster.NumConns = number(connections)
	}
	session, err := cluster.CreateSession()
	if err != nil {
		return report{}, err
	}
	defer session.Close()
	all := make([]worker, workers)
	for i := range all {
		all[i].latencies = make([]int64, 0, queries)
	}
	var running sync.WaitGroup
	running.Add(workers)
	startCPU := processCPU()
	start := time.Now()
	var gap time.Duration
	if rate := os.Getenv("REQUESTS_PER_S"); rate != "" {
		gap = time.Second / time.Duration(number(rate))
	}
	for i := range all {
		go func() {
			defer running.Done()
			all[i].run(session, queries, start.Add(time.Duration(i)*gap), time.Duration(workers)*gap)
		}()
	}
	running.Wait()
	elapsed, cpu := time.Since(start), processCPU()-startCPU
	measured := summarise(all, workers, queries, elapsed)
	measured.CPUUsPerOp = float64(cpu.Microseconds()) / float64(max(measured.OK, 1))
	return measured, nil
}

// processCPU is what the process has used so far, in the kernel too.
func processCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func summarise(all []worker, workers, queries int, elapsed time.Duration) report {
	latencies := make([]int64, 0, workers*queries)
	kinds := make(map[string]int)
	for _, w := range all {
		latencies = append(latencies, w.latencies...)
		for kind, count := range w.errors {
			if _, known := kinds[kind]; !known && len(kinds) >= errorKindsMax {
				kind = "other"
			}
			kinds[kind] += count
		}
	}
	slices.Sort(latencies)
	return report{
		Client:        "gocql " + driverVersion(),
		Workers:       workers,
		Queries:       queries,
		ElapsedS:      elapsed.Seconds(),
		OK:            len(latencies),
		Errors:        kinds,
		OpsPerS:       float64(len(latencies)) / elapsed.Seconds(),
		LatencyUsP50:  quantile(latencies, 0.5),
		LatencyUsP99:  quantile(latencies, 0.99),
		LatencyUsP999: quantile(latencies, 0.999),
	}
}

// quantile of sorted values; zero when there are none.
func quantile(sorted []int64, share float64) int64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(float64(len(sorted))*share), len(sorted)-1)]
}

// driverVersion is the one that go.mod pins, as the linker recorded it.
func driverVersion() string {
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == "github.com/apache/cassandra-gocql-driver/v2" {
				return module.Version
			}
		}
	}
	return "of unknown version"
}

func main() {
	if len(os.Args) != 3 {
		fail("usage", errors.New("CQL_HOST=.. CQL_PORT=.. program WORKERS QUERIES"))
	}
	workers, queries := number(os.Args[1]), number(os.Args[2])
	address := net.JoinHostPort(os.Getenv("CQL_HOST"), os.Getenv("CQL_PORT"))
	if err := prepareData(address); err != nil {
		fail("preparing the row", err)
	}
	measured, err := measure(address, workers, queries)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(measured)
	}
	if err != nil {
		fail("measuring", err)
	}
}

func number(argument string) int {
	value, err := strconv.Atoi(argument)
	if err != nil {
		fail("reading the arguments", err)
	}
	return value
}

func fail(doing string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", doing, err)
	os.Exit(1)
}
