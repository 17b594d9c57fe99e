module helenus/tests/stargate-go

go 1.23

require (
	github.com/stargate/stargate-grpc-go-client v0.0.0-20220822130422-9a1c6261d4fa
	google.golang.org/grpc v1.36.1
	google.golang.org/protobuf v1.27.1
)

require (
	github.com/golang/protobuf v1.5.0 // indirect
	github.com/google/uuid v1.2.0 // indirect
	github.com/sirupsen/logrus v1.8.1 // indirect
	golang.org/x/net v0.0.0-20201224014010-6772e930b67b // indirect
	golang.org/x/sys v0.0.0-20210426230700-d19ff857e887 // indirect
	golang.org/x/text v0.3.4 // indirect
	google.golang.org/genproto v0.0.0-20201110150050-8816d57aaa9a // indirect
	gopkg.in/inf.v0 v0.9.1 // indirect
)
