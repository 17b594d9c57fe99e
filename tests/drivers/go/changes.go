package main

// The schema, how the driver notices its changes, and a restart of the server.

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// How long the driver may take to notice a restart.
const restartSecondsMax = 60

// How long the driver may take to notice a schema change.
const eventSecondsMax = 30

// errSkipped ends a check that cannot be made here.
var errSkipped = errors.New("cannot be made here")

func testSchema(session *gocql.Session) error {
	for _, statement := range []string{
		"DROP KEYSPACE IF EXISTS go_driver",
		"CREATE KEYSPACE go_driver WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TYPE go_driver.address (street text, zip int)",
		"CREATE TYPE go_driver.person (name text, home frozen<address>, phones set<text>)",
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

// testSchemaEvents waits for the events of changes that another session makes.
func testSchemaEvents(session *gocql.Session) error {
	other, err := configuration(4, nil).CreateSession()
	if err != nil {
		return err
	}
	defer other.Close()
	for _, change := range []struct {
		statement string
		columns   int
	}{
		{"CREATE TABLE go_driver.pushed (k int PRIMARY KEY)", 1},
		{"ALTER TABLE go_driver.pushed ADD v int", 2},
		{"DROP TABLE go_driver.pushed", 0},
	} {
		if err := other.Query(change.statement).Exec(); err != nil {
			return err
		}
		if err := waitForColumns(session, change.columns); err != nil {
			return fmt.Errorf("%s: %w", change.statement, err)
		}
	}
	return nil
}

func waitForColumns(session *gocql.Session, wanted int) error {
	found := -1
	for end := time.Now().Add(eventSecondsMax * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		metadata, err := session.KeyspaceMetadata(keyspace)
		if err != nil {
			return err
		}
		found = 0
		if table := metadata.Tables["pushed"]; table != nil {
			found = len(table.Columns)
		}
		if found == wanted {
			return nil
		}
	}
	return fmt.Errorf("the driver knows %d columns instead of %d", found, wanted)
}

func testRestart(session *gocql.Session) error {
	if err := session.Query("INSERT INTO go_driver.kv (k, c, v) VALUES (?, ?, ?)", 40, 1, "before").Exec(); err != nil {
		return err
	}
	fmt.Println("restart")
	reply, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if strings.TrimSpace(reply) != "restarted" {
		return fmt.Errorf("%w: the server cannot be restarted", errSkipped)
	}
	var err error
	for end := time.Now().Add(restartSecondsMax * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var value string
		if err = session.Query("SELECT v FROM go_driver.kv WHERE k = ? AND c = ?", 40, 1).Scan(&value); err == nil {
			if value != "before" {
				return fmt.Errorf("%q after the restart", value)
			}
			// The connection that carries events has been made anew too.
			return testSchemaEvents(session)
		}
	}
	return fmt.Errorf("not readable after the restart: %w", err)
}
