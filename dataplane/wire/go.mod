module github.com/wayleave/wayleave/dataplane/wire

go 1.25.0

require (
	github.com/stretchr/testify v1.12.1
	github.com/wayleave/wayleave v0.1.0
	golang.org/x/sys v0.47.0
	google.golang.org/protobuf v1.36.12
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
