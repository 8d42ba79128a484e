// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
)

// A check of manifests. A problem that wraps convert.ErrIgnored is not a fault: the object has no
// effect on purpose.
func ExampleDecode_ignored() {
	const file = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
`
	_, problems := manifest.Decode("web.yaml", []byte(file))
	for _, err := range problems {
		fmt.Println(errors.Is(err, convert.ErrIgnored), err)
	}
	// Output:
	// true web.yaml: document 1: line 2: Service shop/web: ignored: the EndpointSlices of a service have its backends
}

// A datastore.Dir watches a folder of manifests. The Reader also makes Block resources from the pod
// CIDRs of nodes.
func ExampleReader() {
	reader := manifest.Reader{Converter: convert.Converter{PodCIDRs: true, TrustAnnotations: true}}
	source, err := datastore.NewDir(datastore.DirConfig{
		Path: "/etc/example/manifests", Decode: reader.Decode, Extensions: manifest.Extensions(),
	})
	if err != nil {
		log.Fatal(err)
	}
	_ = source // source.Run(ctx, runner) sends the objects and their changes to a calcgraph.Runner
}
