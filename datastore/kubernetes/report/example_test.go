// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/wayleave/wayleave/datastore/kubernetes/report"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// A rule of a NetworkPolicy is closed, and its author sees the reason in kubectl describe. The
// clients are fakes.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	dynamicClient := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{report.Resource(): "NodeReportList"})
	reporter, err := report.New(report.Config{Client: client, Dynamic: dynamicClient, Node: "n1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	running := make(chan struct{})
	go func() {
		defer close(running)
		_ = reporter.Run(ctx) // until the agent ends
	}()

	// The Source calls this.
	web := convert.Object{
		APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Namespace: "shop", Name: "web",
		UID: "6e7c2c1a-0d5b-4d0e-9a53-1c8f4b8a3f0e",
	}
	reporter.Problems(web, []error{&convert.Error{
		Object: web, Field: "spec.ingress[0].ports[0].endPort", Err: errors.New("less than port"),
	}})

	events, err := client.CoreV1().Events("shop").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer events.Stop()
	found, err := client.CoreV1().Events("shop").List(ctx, metav1.ListOptions{})
	if err == nil && len(found.Items) == 0 {
		if event, ok := (<-events.ResultChan()).Object.(*corev1.Event); ok {
			found.Items = append(found.Items, *event)
		}
	}
	for _, e := range found.Items {
		fmt.Println(e.Type, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
	}
	cancel()
	<-running
	// Output: Warning RuleClosed NetworkPolicy web spec.ingress[0].ports[0].endPort: less than port
}
