// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/pods"
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// daemon is the part of a CNI daemon that enforces policy. The daemon makes links and routes
// itself.
type daemon struct {
	store  datastore.Memory
	pods   *pods.Pods
	driver *dataplane.Driver
}

// newDaemon starts the pipeline with one dataplane, which enforces policy: usually an nft.Dataplane
// whose HostConfig has EndpointToHostAction Accept, so that pods reach their own node.
func newDaemon(ctx context.Context, node string, enforce dataplane.Dataplane) (*daemon, error) {
	d := &daemon{}
	graph, err := calcgraph.New(calcgraph.Config{Node: node})
	if err != nil {
		return nil, err
	}
	d.driver, err = dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{enforce}})
	if err != nil {
		return nil, err
	}
	runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{Graph: graph, Out: d.driver.Send})
	if err != nil {
		return nil, err
	}
	d.pods, err = pods.New(pods.Config{Node: node, Update: func(u policy.Update) {
		_ = d.store.Update(ctx, []policy.Update{u}) // fails only if ctx is done
	}})
	if err != nil {
		return nil, err
	}
	// A program ends if one of these ends. It starts the last only once the store is complete. The
	// store is complete when the informers have synced, and the pods that were attached before a
	// restart are attached again.
	go func() { _ = d.driver.Run(ctx) }()
	go func() { _ = runner.Run(ctx) }()
	go func() { _ = d.store.Run(ctx, runner) }()
	return d, nil
}

// add is called for CNI ADD, once the link exists. It returns when the policy of the pod is
// enforced.
func (d *daemon) add(ctx context.Context, pod pods.Ref, link convert.Attachment) error {
	if err := d.pods.Attach(pod, link); err != nil {
		return err
	}
	if err := d.store.Barrier(ctx); err != nil {
		return err
	}
	return d.driver.WaitEndpoint(ctx, pod.Key(), func(e *dataplane.Endpoint) bool {
		return e.Interface == link.Interface
	})
}

// A CNI daemon that makes links and routes itself, and leaves policy to the library.
func Example_policyOnly() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	mirror := dptest.NewMirror()
	d, err := newDaemon(ctx, "n1", mirror)
	if err != nil {
		fmt.Println(err)
		return
	}
	d.pods.Set(&corev1.Pod{ // from an informer
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"},
		Spec:       corev1.PodSpec{NodeName: "n1"},
	})
	err = d.add(ctx, pods.Ref{Namespace: "shop", Name: "web", UID: "1"}, convert.Attachment{
		Interface: "veth4c1d", Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.7")},
	})
	fmt.Println(err)
	for key, e := range mirror.State().Endpoints {
		fmt.Println(key, e.Interface, e.Addresses)
	}
	// Output:
	// <nil>
	// WorkloadEndpoint/shop/web veth4c1d [10.1.0.7]
}
