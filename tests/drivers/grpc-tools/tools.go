//go:build tools

// Package tools pins clients of gRPC that are programs of others: what they import is what go.sum has.
package tools

import (
	_ "github.com/fullstorydev/grpcurl/cmd/grpcurl"
	_ "google.golang.org/grpc/interop/client"
)
