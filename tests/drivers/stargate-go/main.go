// Stargate's client for Go as an application uses it: a token, a schema, every type, pages, batches, errors.
// It was published before the service had streams.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/stargate/stargate-grpc-go-client/stargate/pkg/auth"
	"github.com/stargate/stargate-grpc-go-client/stargate/pkg/client"
	pb "github.com/stargate/stargate-grpc-go-client/stargate/pkg/proto"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const keyspace = "stargate_go"

func connect(credentials bool) (*client.StargateClient, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	options := []grpc.DialOption{grpc.WithInsecure(), grpc.WithBlock()}
	if credentials {
		url := fmt.Sprintf("http://%s/v1/auth", os.Getenv("DOORS"))
		token := auth.NewTableBasedTokenProviderUnsafe(url, "cassandra", "cassandra")
		options = append(options, grpc.WithPerRPCCredentials(token))
	}
	connection, err := grpc.DialContext(ctx, os.Getenv("DOORS"), options...)
	if err != nil {
		return nil, err
	}
	return client.NewStargateClientWithConn(connection)
}

func query(cql string, values ...*pb.Value) *pb.Query {
	made := &pb.Query{Cql: cql, Parameters: &pb.QueryParameters{Keyspace: wrapperspb.String(keyspace)}}
	if len(values) > 0 {
		made.Values = &pb.Values{Values: values}
	}
	return made
}

func check(holds bool, format string, arguments ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, arguments...)
}

func refusedWith(err error, code, message string) error {
	refused := err != nil && strings.Contains(err.Error(), "code = "+code) && strings.Contains(err.Error(), message)
	return check(refused, "%v instead of %s: %s", err, code, message)
}

func testToken(*client.StargateClient) error {
	anonymous, err := connect(false)
	if err != nil {
		return err
	}
	_, err = anonymous.ExecuteQuery(&pb.Query{Cql: "SELECT key FROM system.local"})
	return refusedWith(err, "Unauthenticated", "x-cassandra-token")
}

func testSchema(stargate *client.StargateClient) error {
	replication := "{'class': 'SimpleStrategy', 'replication_factor': 1}"
	made, err := stargate.ExecuteQuery(&pb.Query{Cql: "CREATE KEYSPACE " + keyspace + " WITH replication = " + replication})
	if err != nil {
		return err
	}
	if err := check(made.GetSchemaChange().GetKeyspace() == keyspace, "%v", made); err != nil {
		return err
	}
	for _, cql := range []string{
		"CREATE TYPE address (street text, zip int)",
		"CREATE TABLE kv (k int, c int, v text, PRIMARY KEY (k, c))",
	} {
		if _, err := stargate.ExecuteQuery(query(cql)); err != nil {
			return err
		}
	}
	return nil
}

func testBatchesAndPages(stargate *client.StargateClient) error {
	batch := &pb.Batch{Type: pb.Batch_LOGGED}
	for c := range 25 {
		values := &pb.Values{Values: []*pb.Value{number(1), number(int64(c)), text(fmt.Sprintf("v%d", c))}}
		cql := "INSERT INTO " + keyspace + ".kv (k, c, v) VALUES (?, ?, ?)"
		batch.Queries = append(batch.Queries, &pb.BatchQuery{Cql: cql, Values: values})
	}
	if _, err := stargate.ExecuteBatch(batch); err != nil {
		return err
	}
	asked := query("SELECT c FROM kv WHERE k = ?", number(1))
	asked.Parameters.PageSize = wrapperspb.Int32(10)
	var sizes []int
	for {
		page, err := stargate.ExecuteQuery(asked)
		if err != nil {
			return err
		}
		sizes = append(sizes, len(page.GetResultSet().GetRows()))
		asked.Parameters.PagingState = page.GetResultSet().GetPagingState()
		if asked.Parameters.PagingState == nil {
			return check(fmt.Sprint(sizes) == "[10 10 5]", "pages of %v", sizes)
		}
	}
}

func testErrors(stargate *client.StargateClient) error {
	for cql, want := range map[string][2]string{
		"SELEC":                               {"InvalidArgument", "no viable alternative"},
		"SELECT * FROM none":                  {"InvalidArgument", "table none does not exist"},
		"CREATE TABLE kv (k int PRIMARY KEY)": {"AlreadyExists", "Cannot add already existing table"},
	} {
		_, err := stargate.ExecuteQuery(query(cql))
		if err := refusedWith(err, want[0], want[1]); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	_, err := stargate.ExecuteQueryWithContext(query("SELECT c FROM kv"), ctx)
	return refusedWith(err, "DeadlineExceeded", "")
}

func main() {
	stargate, err := connect(true)
	if err != nil {
		fmt.Printf("FAIL connect: %v\n", err)
		os.Exit(1)
	}
	failed := false
	for _, test := range []struct {
		name string
		run  func(*client.StargateClient) error
	}{
		{"token", testToken},
		{"schema", testSchema},
		{"types", testTypes},
		{"batches_and_pages", testBatchesAndPages},
		{"errors", testErrors},
	} {
		if err := test.run(stargate); err != nil {
			failed = true
			fmt.Printf("FAIL %s: %v\n", test.name, err)
		} else {
			fmt.Printf("ok %s\n", test.name)
		}
	}
	if failed {
		os.Exit(1)
	}
}
