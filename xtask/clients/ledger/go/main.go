// Adds to counters at a rate until its input ends, through gocql or through grpc-go, both as they come, and then says how often it was
// told that it was done: ledger gocql|grpc|grpc-waiting ADDRESS RATE WORKERS FIRST_ID
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	pb "github.com/stargate/stargate-grpc-go-client/stargate/pkg/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const statement = "UPDATE ledger.counts SET count = count + 1 WHERE id = ?"

type report struct {
	Client       string         `json:"client"`
	Acknowledged []int          `json:"acknowledged"`
	Errors       map[string]int `json:"errors"`
	P99Us        int64          `json:"p99_us"`
	MaxUs        int64          `json:"max_us"`
}

func main() {
	kind, address := os.Args[1], os.Args[2]
	rate, workers, first := number(3), number(4), number(5)
	var add func(id int) error
	switch kind {
	case "gocql":
		cluster := gocql.NewCluster(address)
		session, err := cluster.CreateSession()
		must(err)
		add = func(id int) error { return session.Query(statement, id).Exec() }
	case "grpc", "grpc-waiting":
		options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
		if kind == "grpc-waiting" {
			// A call waits for a connection, and does not fail where there is none.
			options = append(options, grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
		}
		connection, err := grpc.NewClient(address, options...)
		must(err)
		client := pb.NewStargateClient(connection)
		add = func(id int) error {
			value := &pb.Value{Inner: &pb.Value_Int{Int: int64(id)}}
			query := &pb.Query{Cql: statement, Values: &pb.Values{Values: []*pb.Value{value}}}
			_, err := client.ExecuteQuery(context.Background(), query)
			return err
		}
	}
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	said := report{Client: kind, Acknowledged: make([]int, workers), Errors: map[string]int{}}
	var mutex sync.Mutex
	var latencies []int64
	var group sync.WaitGroup
	begun := time.Now()
	interval := time.Second * time.Duration(workers) / time.Duration(rate)
	for worker := range workers {
		group.Add(1)
		go func() {
			defer group.Done()
			due := begun.Add(interval * time.Duration(worker) / time.Duration(workers))
			for {
				select {
				case <-ended:
					return
				case <-time.After(time.Until(due)):
				}
				sent := time.Now()
				err := add(first + worker)
				took := time.Since(sent).Microseconds()
				mutex.Lock()
				if err == nil {
					said.Acknowledged[worker]++
				} else {
					said.Errors[err.Error()]++
				}
				latencies = append(latencies, took)
				mutex.Unlock()
				// Who is late does the next at once, and does not make up for what it missed.
				due = due.Add(interval)
				if now := time.Now(); due.Before(now) {
					due = now
				}
			}
		}()
	}
	fmt.Println("ready")
	group.Wait()
	sort.Slice(latencies, func(a, b int) bool { return latencies[a] < latencies[b] })
	if len(latencies) > 0 {
		said.P99Us = latencies[len(latencies)*99/100]
		said.MaxUs = latencies[len(latencies)-1]
	}
	must(json.NewEncoder(os.Stdout).Encode(said))
}

func number(place int) int {
	value, err := strconv.Atoi(os.Args[place])
	must(err)
	return value
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
