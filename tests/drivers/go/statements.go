package main

// Pages, batches, errors and what else a request may carry.

import (
	"errors"
	"fmt"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

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

func testRequestOptions(session *gocql.Session) error {
	insert := "INSERT INTO go_driver.kv (k, c, v) VALUES (?, ?, ?)"
	if err := session.Query(insert, 51, 1, "x").WithTimestamp(7).Exec(); err != nil {
		return err
	}
	var written int64
	if err := session.Query("SELECT writetime(v) FROM go_driver.kv WHERE k = 51").Scan(&written); err != nil {
		return err
	}
	if written != 7 {
		return fmt.Errorf("written at %d", written)
	}
	rows := session.Query("SELECT count(*) FROM go_driver.kv").Iter()
	warnings := rows.Warnings()
	if err := rows.Close(); err != nil {
		return err
	}
	if len(warnings) == 0 {
		return errors.New("an aggregate without partition key does not warn")
	}
	// Protocol version 5: the keyspace travels with the request.
	var name string
	if err := session.Query("SELECT cluster_name FROM local").SetKeyspace("system").Scan(&name); err != nil {
		return err
	}
	return check(name != "", "no cluster name")
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
	if err := unavailable(session); err != nil {
		return err
	}
	var value string
	err := session.Query("SELECT v FROM go_driver.kv WHERE k = -1").Scan(&value)
	return check(err == gocql.ErrNotFound, "no row gives %v", err)
}

func unavailable(session *gocql.Session) error {
	err := session.Query("SELECT * FROM go_driver.kv").Consistency(gocql.Three).Exec()
	var failure *gocql.RequestErrUnavailable
	if !errors.As(err, &failure) {
		return fmt.Errorf("consistency THREE gives %v", err)
	}
	return check(failure.Required == 3 && failure.Alive == 1, "required %d, alive %d", failure.Required, failure.Alive)
}
