package main

// Values of every type, there and back.

import (
	"errors"
	"fmt"
	"math/big"
	"net"
	"reflect"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"gopkg.in/inf.v0"
)

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

// A server without counters has to say so by an error of its own, and not to count wrongly.
func refusesCounters(err error) bool {
	var refusal gocql.RequestError
	return errors.As(err, &refusal) && refusal.Code() == gocql.ErrCodeInvalid &&
		refusal.Message() == "Counter updates are not supported yet"
}

func testCounters(session *gocql.Session) error {
	if err := session.Query("CREATE TABLE go_driver.visits (page text PRIMARY KEY, seen counter)").Exec(); err != nil {
		return err
	}
	for _, step := range []int64{5, -2, 4} {
		err := session.Query("UPDATE go_driver.visits SET seen = seen + ? WHERE page = ?", step, "home").Exec()
		if refusesCounters(err) {
			return fmt.Errorf("%w: %v", errSkipped, err)
		}
		if err != nil {
			return err
		}
	}
	batch := session.Batch(gocql.CounterBatch)
	for _, page := range []string{"home", "other"} {
		batch = batch.Query("UPDATE go_driver.visits SET seen = seen + ? WHERE page = ?", int64(1), page)
	}
	if err := batch.Exec(); err != nil {
		return err
	}
	var seen int64
	if err := session.Query("SELECT seen FROM go_driver.visits WHERE page = 'home'").Scan(&seen); err != nil {
		return err
	}
	return check(seen == 8, "%d visits", seen)
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

type person struct {
	Name   string   `cql:"name"`
	Home   *address `cql:"home"`
	Phones []string `cql:"phones"`
}

func testUserTypes(session *gocql.Session) error {
	err := session.Query("CREATE TABLE go_driver.people (id int PRIMARY KEY, a address, p frozen<person>)").Exec()
	if err != nil {
		return err
	}
	home := address{"Main", 5}
	for id, written := range []person{{"Ada", &home, []string{"1", "2"}}, {"Bob", nil, nil}} {
		if err := session.Query("INSERT INTO go_driver.people (id, a, p) VALUES (?, ?, ?)", id, home, written).Exec(); err != nil {
			return err
		}
		if err := session.Query("UPDATE go_driver.people SET a.zip = 8 WHERE id = ?", id).Exec(); err != nil {
			return err
		}
		var a address
		var p person
		if err := session.Query("SELECT a, p FROM go_driver.people WHERE id = ?", id).Scan(&a, &p); err != nil {
			return err
		}
		if a != (address{"Main", 8}) || !reflect.DeepEqual(p, written) {
			return fmt.Errorf("%v and %v instead of %v", a, p, written)
		}
	}
	return nil
}

// testUnsetValues writes a value that is not set, which leaves the column as it is, and null, which deletes it.
func testUnsetValues(session *gocql.Session) error {
	insert := "INSERT INTO go_driver.nested (id, l, s) VALUES (?, ?, ?)"
	if err := session.Query(insert, 2, []int{1}, []string{"x"}).Exec(); err != nil {
		return err
	}
	if err := session.Query(insert, 2, gocql.UnsetValue, nil).Exec(); err != nil {
		return err
	}
	var l []int
	var s []string
	if err := session.Query("SELECT l, s FROM go_driver.nested WHERE id = 2").Scan(&l, &s); err != nil {
		return err
	}
	return check(len(l) == 1 && s == nil, "%v and %v", l, s)
}
