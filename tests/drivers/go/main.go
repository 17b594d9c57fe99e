// The Go driver as an application uses it: types, paging, batches, errors, protocols, restart.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/cassandra-gocql-driver/v2/lz4"
	"github.com/apache/cassandra-gocql-driver/v2/snappy"
)

const keyspace = "go_driver"

func configuration(version int, compressor gocql.Compressor) *gocql.ClusterConfig {
	cluster := gocql.NewCluster(os.Getenv("CQL_HOST"))
	cluster.Port, _ = strconv.Atoi(os.Getenv("CQL_PORT"))
	cluster.ProtoVersion = version
	cluster.Consistency = gocql.One
	cluster.Timeout = 20 * time.Second
	cluster.ConnectTimeout = 20 * time.Second
	cluster.ReconnectInterval = 500 * time.Millisecond
	cluster.Compressor = compressor
	return cluster
}

func testProtocols(*gocql.Session) error {
	text := strings.Repeat("compressible ", 20000)
	for _, version := range []int{3, 4, 5} {
		for name, compressor := range map[string]gocql.Compressor{"none": nil, "lz4": lz4.LZ4Compressor{}, "snappy": snappy.SnappyCompressor{}} {
			if version == 5 && name == "snappy" {
				continue
			}
			if err := writeAndRead(version, compressor, text); err != nil {
				return fmt.Errorf("protocol %d with compression %s: %w", version, name, err)
			}
		}
	}
	return nil
}

func writeAndRead(version int, compressor gocql.Compressor, text string) error {
	session, err := configuration(version, compressor).CreateSession()
	if err != nil {
		return err
	}
	defer session.Close()
	if err := session.Query("INSERT INTO go_driver.kv (k, c, v) VALUES (30, ?, ?)", version, text).Exec(); err != nil {
		return err
	}
	var read string
	if err := session.Query("SELECT v FROM go_driver.kv WHERE k = 30 AND c = ?", version).Scan(&read); err != nil {
		return err
	}
	return check(read == text, "%d bytes instead of %d", len(read), len(text))
}

func check(condition bool, format string, arguments ...interface{}) error {
	if condition {
		return nil
	}
	return fmt.Errorf(format, arguments...)
}

func main() {
	session, err := configuration(5, nil).CreateSession()
	if err != nil {
		fmt.Println("FAIL connect:", err)
		os.Exit(1)
	}
	failed := false
	for _, test := range []struct {
		name string
		run  func(*gocql.Session) error
	}{
		{"schema", testSchema}, {"metadata", testMetadata}, {"native types", testNativeTypes},
		{"counters", testCounters}, {"collections", testCollections}, {"user types", testUserTypes},
		{"unset values", testUnsetValues}, {"paging", testPaging}, {"batches", testBatches},
		{"request options", testRequestOptions}, {"errors", testErrors}, {"reprepare", testReprepare},
		{"schema events", testSchemaEvents}, {"protocols", testProtocols}, {"restart", testRestart},
	} {
		if err := test.run(session); errors.Is(err, errSkipped) {
			fmt.Printf("skip %s: %v\n", test.name, err)
		} else if err != nil {
			fmt.Printf("FAIL %s: %v\n", test.name, err)
			failed = true
		} else {
			fmt.Println("ok", test.name)
		}
	}
	session.Close()
	if failed {
		os.Exit(1)
	}
}
