// SPDX-License-Identifier: Apache-2.0

package kubernetes_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/pods"
)

// A CNI daemon reads the API server. In ADD, it waits until the policy of the pod is enforced.
// Here, the clients are fakes and the dataplane is in memory. Usually the dataplane is an
// nft.Dataplane.
func Example() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client := fake.NewClientset(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"},
		Spec:       corev1.PodSpec{NodeName: "n1"},
	})
	source, err := kubernetes.New(kubernetes.Config{
		Client: client, Dynamic: newDynamic(), Node: "n1", Omit: calico(),
	})
	must(err)
	graph, err := calcgraph.New(calcgraph.Config{Node: "n1"})
	must(err)
	mirror := dptest.NewMirror()
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{mirror}})
	must(err)
	runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{Graph: graph, Out: driver.Send})
	must(err)
	go func() { _ = driver.Run(ctx) }() // a program ends if one of these ends
	go func() { _ = runner.Run(ctx) }()
	go func() { _ = source.Run(ctx, runner) }()

	web := pods.Ref{Namespace: "shop", Name: "web", UID: "1"} // from CNI ADD
	link := convert.Attachment{Interface: "pod6f1c", Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.7")}}
	must(source.Attach(web, link))
	must(source.Barrier(ctx))
	must(driver.WaitEndpoint(ctx, web.Key(), func(e *dataplane.Endpoint) bool { return e.Interface == link.Interface }))
	for key, e := range mirror.State().Endpoints {
		fmt.Println(key, e.Interface, e.Addresses)
	}
	// Output:
	// WorkloadEndpoint/shop/web pod6f1c [10.1.0.7]
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
