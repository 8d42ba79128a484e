// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"fmt"

	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A rule with an error is closed. The other rules of the policy are converted.
func ExampleConverter_NetworkPolicy() {
	port, zero := intstr.FromInt32(443), intstr.FromInt32(0)
	np := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{Ports: []networkingv1.NetworkPolicyPort{{Port: &port}}},
				{Ports: []networkingv1.NetworkPolicyPort{{Port: &zero}}},
			},
		},
	}
	p, problems := convert.Converter{}.NetworkPolicy(np)
	fmt.Println(p.Key(), len(p.Ingress), p.Doubts())
	fmt.Println(problems)
	// Output:
	// Policy/shop/knp.default.web 2 policy: in doubt: Policy/shop/knp.default.web: spec.ingress[1].ports[0].port: ports are 1 to 65535
	// [NetworkPolicy shop/web: spec.ingress[1].ports[0].port: ports are 1 to 65535]
}

// A ClusterNetworkPolicy selects nodes by their network sets. A Node is converted to a Node and a
// NetworkSet.
func ExampleConverter_Convert() {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1", Labels: map[string]string{"zone": "east"},
		},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}},
	}
	resources, problems := convert.Converter{}.Convert(node)
	for _, r := range resources {
		data, err := policy.Encode(r)
		fmt.Println(string(data), err)
	}
	fmt.Println(problems)
	// Output:
	// {"kind":"Node","name":"n1","addresses":["192.0.2.1/32"],"labels":{"zone":"east"}} <nil>
	// {"kind":"NetworkSet","name":"knode.n1","labels":{"wayleave.dev/node.projectcalico.org/name":"n1","wayleave.dev/node.zone":"east"},"nets":["192.0.2.1/32"]} <nil>
	// []
}

// A handler of an informer sends the store the changes of an object. Here a node loses its pod
// CIDR.
func ExampleConverter_Changes() {
	before := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.1.0.0/24"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}},
	}
	now := before.DeepCopy()
	now.Spec.PodCIDRs = nil
	updates, problems := convert.Converter{PodCIDRs: true}.Changes(before, now)
	for _, u := range updates {
		fmt.Println(u.Key, u.Resource != nil)
	}
	fmt.Println(problems)
	// Output:
	// Node/n1 true
	// NetworkSet/knode.n1 true
	// Block/10.1.0.0/24 false
	// []
}

// A pod of a repository has no node and no address. Assume invents them.
func ExampleAssume() {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	resources, problems := convert.Converter{AssumeNetwork: true}.Convert(pod)
	fmt.Println(len(problems))
	_, assumed := convert.Assume(resources)
	for _, a := range assumed {
		fmt.Println(a.Key, a.Node, len(a.Addresses))
	}
	// Output:
	// 0
	// WorkloadEndpoint/shop/web true 2
}
