// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/policy"
)

// decodeResources reads a resource in JSON from each line. For manifests of Kubernetes there is
// manifest.Decode.
func decodeResources(file string, data []byte) (resources []policy.Resource, problems []error) {
	for line := range bytes.Lines(data) {
		r, err := policy.Decode(line)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", file, err))
			continue
		}
		resources = append(resources, r)
	}
	return resources, problems
}

// The second file lacks an object of the first, so the Writer deletes that object.
func ExampleWriter() {
	endpoint, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{endpoint}, Cluster: "example"})
	must(err)
	defer client.Close()
	store, err := etcd.NewStore(etcd.StoreConfig{Client: client})
	must(err)
	writer, err := etcd.NewWriter(etcd.WriterConfig{Store: store, Owner: "team-a", Decode: decodeResources})
	must(err)

	const deny = `{"kind": "Policy", "namespace": "shop", "name": "deny", "selector": "all()"}` + "\n"
	const tier = `{"kind": "Tier", "name": "security", "order": 10}` + "\n"
	result, err := writer.Write(ctx, "policies.json", []byte(deny+tier))
	must(err)
	fmt.Println("objects:", result.Objects, "deleted:", result.Pruned)
	result, err = writer.Write(ctx, "policies.json", []byte(deny))
	must(err)
	fmt.Println("objects:", result.Objects, "deleted:", result.Pruned)
	// Output:
	// objects: 2 deleted: []
	// objects: 1 deleted: [Tier/security]
}
