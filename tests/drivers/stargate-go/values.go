package main

import (
	"fmt"
	"strings"

	"github.com/stargate/stargate-grpc-go-client/stargate/pkg/client"
	pb "github.com/stargate/stargate-grpc-go-client/stargate/pkg/proto"
)

func number(of int64) *pb.Value { return &pb.Value{Inner: &pb.Value_Int{Int: of}} }

func text(of string) *pb.Value { return &pb.Value{Inner: &pb.Value_String_{String_: of}} }

func collection(of ...*pb.Value) *pb.Value {
	return &pb.Value{Inner: &pb.Value_Collection{Collection: &pb.Collection{Elements: of}}}
}

// A type, a value of it, and how the client's own conversions print what they read.
type valueCase struct {
	of    string
	value *pb.Value
	read  func(*pb.Value, *pb.TypeSpec) (any, error)
	wants string
}

// The client's conversions that need no type.
func plain[T any](read func(*pb.Value) (T, error)) func(*pb.Value, *pb.TypeSpec) (any, error) {
	return func(value *pb.Value, _ *pb.TypeSpec) (any, error) { return read(value) }
}

func typed(read func(*pb.Value, *pb.TypeSpec) (any, error)) func(*pb.Value, *pb.TypeSpec) (any, error) {
	return read
}

// The client has no conversion of these.
func asSent(value *pb.Value, _ *pb.TypeSpec) (any, error) {
	return strings.ReplaceAll(value.String(), " ", ""), nil
}

func cases() []valueCase {
	id := []byte{0xd6, 0x45, 0x52, 0x56, 0xe7, 0xf1, 0x11, 0xf1, 0x82, 0x58, 0x79, 0xec, 0x71, 0xbc, 0x39, 0xa4}
	uuid := &pb.Value{Inner: &pb.Value_Uuid{Uuid: &pb.Uuid{Value: id}}}
	address := map[string]*pb.Value{"street": text("Long Lane")}
	return []valueCase{
		{"ascii", text("a"), plain(client.ToString), "a"},
		{"bigint", number(-1 << 63), plain(client.ToBigInt), "-9223372036854775808"},
		{"blob", &pb.Value{Inner: &pb.Value_Bytes{Bytes: []byte{0, 255}}}, plain(client.ToBlob), "[0 255]"},
		{"boolean", &pb.Value{Inner: &pb.Value_Boolean{Boolean: true}}, plain(client.ToBoolean), "true"},
		{"date", &pb.Value{Inner: &pb.Value_Date{Date: 1 << 31}}, plain(client.ToDate), "2147483648"},
		{"decimal", &pb.Value{Inner: &pb.Value_Decimal{Decimal: &pb.Decimal{Scale: 2, Value: []byte{0x7d}}}}, plain(client.ToDecimal), "1.25"},
		{"double", &pb.Value{Inner: &pb.Value_Double{Double: 0.5}}, plain(client.ToDouble), "0.5"},
		{"float", &pb.Value{Inner: &pb.Value_Float{Float: 1.5}}, plain(client.ToFloat), "1.5"},
		{"inet", &pb.Value{Inner: &pb.Value_Inet{Inet: &pb.Inet{Value: []byte{127, 0, 0, 1}}}}, plain(client.ToInet), "[127 0 0 1]"},
		{"int", number(-7), plain(client.ToInt), "-7"},
		{"list<text>", collection(text("x"), text("y")), typed(client.ToList), "[x y]"},
		{"map<text, int>", collection(text("k"), number(1)), typed(client.ToMap), "map[k:1]"},
		{"set<int>", collection(number(1), number(2)), typed(client.ToSet), "[1 2]"},
		{"smallint", number(-3), plain(client.ToSmallInt), "-3"},
		{"text", text("\u00e9"), plain(client.ToString), "\u00e9"},
		{"time", &pb.Value{Inner: &pb.Value_Time{Time: 1000}}, plain(client.ToTime), "1000"},
		{"timestamp", number(1767225600000), plain(client.ToTimestamp), "1767225600000"},
		{"timeuuid", uuid, plain(client.ToTimeUUID), "d6455256-e7f1-11f1-8258-79ec71bc39a4"},
		{"tinyint", number(7), plain(client.ToTinyInt), "7"},
		{"tuple<int, text>", collection(number(1), text("z")), typed(client.ToTuple), "[1 z]"},
		{"frozen<address>", &pb.Value{Inner: &pb.Value_Udt{Udt: &pb.UdtValue{Fields: address}}}, plain(street), "Long Lane"},
		{"uuid", uuid, plain(client.ToUUID), "d6455256-e7f1-11f1-8258-79ec71bc39a4"},
		{"varint", &pb.Value{Inner: &pb.Value_Varint{Varint: &pb.Varint{Value: []byte{0x7d}}}}, plain(client.ToVarInt), "125"},
		{"int", &pb.Value{Inner: &pb.Value_Null_{Null: &pb.Value_Null{}}}, asSent, "null:{}"},
	}
}

func street(value *pb.Value) (string, error) {
	return client.ToString(value.GetUdt().GetFields()["street"])
}

// And unset, which leaves what is there.
func testTypes(stargate *client.StargateClient) error {
	all := cases()
	var declared, columns strings.Builder
	values := []*pb.Value{number(1)}
	for at, one := range all {
		fmt.Fprintf(&declared, ", c%d %s", at, one.of)
		fmt.Fprintf(&columns, ", c%d", at)
		values = append(values, one.value)
	}
	unset := &pb.Value{Inner: &pb.Value_Unset_{Unset: &pb.Value_Unset{}}}
	for _, asked := range []*pb.Query{
		query("CREATE TABLE types (id int PRIMARY KEY" + declared.String() + ")"),
		query("INSERT INTO types (id"+columns.String()+") VALUES (?"+strings.Repeat(", ?", len(all))+")", values...),
		query("UPDATE types SET c0 = ? WHERE id = ?", unset, number(1)),
	} {
		if _, err := stargate.ExecuteQuery(asked); err != nil {
			return err
		}
	}
	response, err := stargate.ExecuteQuery(query("SELECT id"+columns.String()+" FROM types WHERE id = ?", number(1)))
	if err != nil {
		return err
	}
	rows := response.GetResultSet()
	for at, one := range all {
		read, err := one.read(rows.Rows[0].Values[at+1], rows.Columns[at+1].Type)
		if err != nil {
			return fmt.Errorf("%s: %w", one.of, err)
		}
		if err := check(fmt.Sprint(read) == one.wants, "%s: %v instead of %s", one.of, read, one.wants); err != nil {
			return err
		}
	}
	return nil
}
