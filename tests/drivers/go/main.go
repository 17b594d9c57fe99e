// The Go driver as an application uses it: types, paging, batches, errors, protocols, restart.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/cassandra-gocql-driver/v2/lz4"
	"github.com/apache/cassandra-gocql-driver/v2/snappy"
	"gopkg.in/inf.v0"
)

const keyspace = "go_driver"

// How long the driver may take to notice a restart.
const restartSecondsMax = 60

// How long the driver may take to notice a schema change.
const eventSecondsMax = 30

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

func testSchema(session *gocql.Session) error {
	for _, statement := range []string{
		"DROP KEYSPACE IF EXISTS go_driver",
		"CREATE KEYSPACE go_driver WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TYPE go_driver.address (street text, zip int)",
		"CREATE TABLE go_driver.kv (k int, c int, v text, PRIMARY KEY (k, c))",
	} {
		if err := session.Query(statement).Exec(); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func testMetadata(session *gocql.Session) error {
	// The driver learns of the new keyspace by an event.
	var metadata *gocql.KeyspaceMetadata
	var err error
	for end := time.Now().Add(eventSecondsMax * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if metadata, err = session.KeyspaceMetadata(keyspace); err == nil && metadata.Tables["kv"] != nil {
			break
		}
	}
	if err != nil {
		return err
	}
	table := metadata.Tables["kv"]
	if table == nil || len(table.PartitionKey) != 1 || table.PartitionKey[0].Name != "k" {
		return fmt.Errorf("table kv is %+v", table)
	}
	if len(table.ClusteringColumns) != 1 || table.ClusteringColumns[0].Name != "c" {
		return fmt.Errorf("clustering columns are %+v", table.ClusteringColumns)
	}
	if len(metadata.UserTypes["address"].FieldNames) != 2 {
		return fmt.Errorf("type address is %+v", metadata.UserTypes["address"])
	}
	return nil
}

func testNativeTypes(session *gocql.Session) error {
	err := session.Query(`CREATE TABLE go_driver.natives (id int PRIMARY KEY, a ascii, b bigint, bl blob, bo boolean,
		da date, de decimal, d double, du duration, f float, ip inet, s smallint, t text, ti time, ts timestamp,
		tu timeuuid, ty tinyint, u uuid, vi varint)`).Exec()
	if err != nil {
		return err
	}
	timeUUID := gocql.TimeUUID()
	random, _ := gocql.RandomUUID()
	huge, _ := new(big.Int).SetString("-1267650600228229401496703205376", 10)
	day := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
	moment := time.Date(2024, 2, 29, 1, 2, 3, 456e6, time.UTC)
	written := []interface{}{1, "ascii", int64(-1 << 63), []byte{0, 255}, true, day, inf.NewDec(-1234500, 4), 2.5e-300,
		gocql.Duration{Months: 1, Days: 2, Nanoseconds: 3000}, float32(0.5), net.ParseIP("2001:db8::1"), int16(-32768),
		"ünï 漢 😀", 13 * time.Hour, moment, timeUUID, int8(-128), random, huge}
	insert := "INSERT INTO go_driver.natives (id, a, b, bl, bo, da, de, d, du, f, ip, s, t, ti, ts, tu, ty, u, vi) " +
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	if err := session.Query(insert, written...).Exec(); err != nil {
		return err
	}
	read := make([]interface{}, len(written))
	for i := range written {
		read[i] = reflect.New(reflect.TypeOf(written[i])).Interface()
	}
	sel := "SELECT id, a, b, bl, bo, da, de, d, du, f, ip, s, t, ti, ts, tu, ty, u, vi FROM go_driver.natives WHERE id = ?"
	if err := session.Query(sel, 1).Scan(read...); err != nil {
		return err
	}
	for i := range written {
		got := reflect.ValueOf(read[i]).Elem().Interface()
		if fmt.Sprint(got) != fmt.Sprint(written[i]) {
			return fmt.Errorf("value %d is %v instead of %v", i, got, written[i])
		}
	}
	var missing *string
	if err := session.Query("INSERT INTO go_driver.natives (id, t) VALUES (?, ?)", 2, nil).Exec(); err != nil {
		return err
	}
	if err := session.Query("SELECT t FROM go_driver.natives WHERE id = 2").Scan(&missing); err != nil {
		return err
	}
	return check(missing == nil, "null came back as %v", missing)
}

type address struct {
	Street string `cql:"street"`
	Zip    int    `cql:"zip"`
}

func testCollections(session *gocql.Session) error {
	err := session.Query(`CREATE TABLE go_driver.nested (id int PRIMARY KEY, l list<int>, s set<text>,
		m map<text, double>, t tuple<int, text>, a frozen<address>, la list<frozen<address>>, v vector<float, 3>)`).Exec()
	if err != nil {
		return err
	}
	home := address{"Main", 5}
	insert := "INSERT INTO go_driver.nested (id, l, s, m, t, a, la, v) VALUES (?, ?, ?, ?, (?, ?), ?, ?, ?)"
	err = session.Query(insert, 1, []int{3, 1, 2}, []string{"b", "a"}, map[string]float64{"x": 1.5}, 7, "seven", home,
		[]address{home, {"Side", 6}}, []float32{1, 2.5, -3}).Exec()
	if err != nil {
		return err
	}
	var l []int
	var s []string
	var m map[string]float64
	var number int
	var text string
	var a address
	var la []address
	var v []float32
	err = session.Query("SELECT l, s, m, t, a, la, v FROM go_driver.nested WHERE id = 1").
		Scan(&l, &s, &m, &number, &text, &a, &la, &v)
	if err != nil {
		return err
	}
	got := fmt.Sprintf("%v %v %v %v %v %v %v %v", l, s, m, number, text, a, la, v)
	want := "[3 1 2] [a b] map[x:1.5] 7 seven {Main 5} [{Main 5} {Side 6}] [1 2.5 -3]"
	return check(got == want, "%s instead of %s", got, want)
}

func testPaging(session *gocql.Session) error {
	for c := 0; c < 300; c++ {
		if err := session.Query("INSERT INTO go_driver.kv (k, c, v) VALUES (1, ?, ?)", c, fmt.Sprint("v", c)).Exec(); err != nil {
			return err
		}
	}
	for _, size := range []int{7, 100, 300, 5000} {
		rows := session.Query("SELECT c FROM go_driver.kv WHERE k = 1").PageSize(size).Iter()
		var c, expected int
		for rows.Scan(&c) {
			if c != expected {
				return fmt.Errorf("page size %d: row %d is %d", size, expected, c)
			}
			expected++
		}
		if err := rows.Close(); err != nil {
			return err
		}
		if expected != 300 {
			return fmt.Errorf("page size %d: %d rows", size, expected)
		}
	}
	first := session.Query("SELECT c FROM go_driver.kv WHERE k = 1").PageSize(200).PageState(nil).Iter()
	state := first.PageState()
	second := session.Query("SELECT c FROM go_driver.kv WHERE k = 1").PageSize(200).PageState(state).Iter()
	return check(first.NumRows() == 200 && second.NumRows() == 100, "pages of %d and %d", first.NumRows(), second.NumRows())
}

func testBatches(session *gocql.Session) error {
	for key, kind := range map[int]gocql.BatchType{20: gocql.LoggedBatch, 21: gocql.UnloggedBatch} {
		batch := session.Batch(kind)
		for c := 0; c < 10; c++ {
			batch = batch.Query("INSERT INTO go_driver.kv (k, c, v) VALUES (?, ?, ?)", key, c, "batched")
		}
		batch = batch.Query(fmt.Sprintf("DELETE FROM go_driver.kv WHERE k = %d AND c = 3", key))
		if err := batch.Exec(); err != nil {
			return err
		}
		var count int
		if err := session.Query("SELECT count(*) FROM go_driver.kv WHERE k = ?", key).Scan(&count); err != nil {
			return err
		}
		if count != 9 {
			return fmt.Errorf("%d rows after the batch", count)
		}
	}
	return nil
}

func testErrors(session *gocql.Session) error {
	for statement, want := range map[string]struct {
		code int
		text string
	}{
		"SELEC * FROM go_driver.kv":                     {gocql.ErrCodeSyntax, "line 1:0"},
		"SELECT nope FROM go_driver.kv":                 {gocql.ErrCodeInvalid, "Undefined column name nope"},
		"SELECT * FROM go_driver.nope":                  {gocql.ErrCodeInvalid, "table nope does not exist"},
		"CREATE TABLE go_driver.kv (k int PRIMARY KEY)": {gocql.ErrCodeAlreadyExists, "already exist"},
		"CREATE TABLE go_driver.x (k int)":              {gocql.ErrCodeInvalid, "PRIMARY KEY"},
	} {
		err := session.Query(statement).Exec()
		var failure gocql.RequestError
		if !errors.As(err, &failure) {
			return fmt.Errorf("%s: %v", statement, err)
		}
		if failure.Code() != want.code || !strings.Contains(failure.Message(), want.text) {
			return fmt.Errorf("%s: %#x %s", statement, failure.Code(), failure.Message())
		}
	}
	var value string
	err := session.Query("SELECT v FROM go_driver.kv WHERE k = -1").Scan(&value)
	return check(err == gocql.ErrNotFound, "no row gives %v", err)
}

func testReprepare(session *gocql.Session) error {
	for _, columns := range []string{"k int PRIMARY KEY, v int", "k int PRIMARY KEY, v text, w int"} {
		if err := session.Query("DROP TABLE IF EXISTS go_driver.again").Exec(); err != nil {
			return err
		}
		if err := session.Query("CREATE TABLE go_driver.again (" + columns + ")").Exec(); err != nil {
			return err
		}
		if err := session.Query("INSERT INTO go_driver.again (k) VALUES (?)", 1).Exec(); err != nil {
			return err
		}
		rows := session.Query("SELECT * FROM go_driver.again WHERE k = ?", 1).Iter()
		found := rows.NumRows()
		if err := rows.Close(); err != nil {
			return err
		}
		if found != 1 {
			return fmt.Errorf("%d rows", found)
		}
	}
	return nil
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

func testRestart(session *gocql.Session) error {
	if err := session.Query("INSERT INTO go_driver.kv (k, c, v) VALUES (?, ?, ?)", 40, 1, "before").Exec(); err != nil {
		return err
	}
	fmt.Println("restart")
	reply, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if strings.TrimSpace(reply) != "restarted" {
		fmt.Println("skip restart: the server cannot be restarted from here")
		return nil
	}
	var err error
	for end := time.Now().Add(restartSecondsMax * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var value string
		if err = session.Query("SELECT v FROM go_driver.kv WHERE k = ? AND c = ?", 40, 1).Scan(&value); err == nil {
			return check(value == "before", "%q after the restart", value)
		}
	}
	return fmt.Errorf("not readable after the restart: %w", err)
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
		{"collections", testCollections}, {"paging", testPaging}, {"batches", testBatches}, {"errors", testErrors},
		{"reprepare", testReprepare}, {"protocols", testProtocols}, {"restart", testRestart},
	} {
		if err := test.run(session); err != nil {
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
