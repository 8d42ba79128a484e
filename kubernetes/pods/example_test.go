// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/pods"
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A CNI plugin gives a pod its link before the API has the address.
func ExamplePods() {
	p, err := pods.New(pods.Config{Node: "n1", Update: func(u policy.Update) {
		if e, ok := u.Resource.(*policy.WorkloadEndpoint); ok {
			fmt.Println(u.Key, e.Interface, e.Addresses, e.Labels["app"])
		} else {
			fmt.Println(u.Key, "is no endpoint")
		}
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: "1", Labels: map[string]string{"app": "web"},
		},
		Spec: corev1.PodSpec{NodeName: "n1"},
	}
	web := pods.Ref{Namespace: "shop", Name: "web", UID: "1"}

	p.Set(pod)                              // from the informer: scheduled, without an address
	err = p.Attach(web, convert.Attachment{ // from CNI ADD
		Interface: "veth4c1d", Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.7")},
	})
	if err != nil {
		fmt.Println(err)
	}
	p.Detach(web) // from CNI DEL
	// Output:
	// WorkloadEndpoint/shop/web is no endpoint
	// WorkloadEndpoint/shop/web veth4c1d [10.1.0.7] web
	// WorkloadEndpoint/shop/web is no endpoint
}
