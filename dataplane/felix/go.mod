module github.com/wayleave/wayleave/dataplane/felix

go 1.25.0

require (
	github.com/stretchr/testify v1.12.1
	github.com/wayleave/wayleave v0.1.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/gaissmai/bart v0.30.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
