// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
)

// kind is one kind of objects that the Source reads.
type kind struct {
	resource schema.GroupVersionResource
	// object is the kind of its objects, as in "Pod".
	object string
	// fields and labels are the selectors of the objects that are read.
	fields, labels string
	// typed returns the client of the kind, and informer the caller's informer. Both are nil if the
	// kind is read with Config.Dynamic.
	typed    func(kubernetes.Interface) client
	informer func(informers.SharedInformerFactory) cache.SharedIndexInformer
}

// aggregated reports whether an aggregated API server may serve the kind, as Calico's API server
// does. If such a server no longer has the kind, its objects may still exist. If a
// CustomResourceDefinition is removed, however, its objects are deleted first.
func (k kind) aggregated() bool { return k.resource.Group == calicoGroup }

func (k kind) String() string { return k.resource.GroupResource().String() }

// calicoGroup is the API group of Calico.
const calicoGroup = "projectcalico.org"

// clusterNetworkPolicy is the only kind whose status has conditions.
const clusterNetworkPolicy = "ClusterNetworkPolicy"

// assigned selects the pods that have a node and have not ended.
const assigned = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

// kinds returns all kinds. Calico's Profile, WorkloadEndpoint and Node are not among them: they
// duplicate Namespaces, Pods and Nodes.
func kinds() []kind {
	list := []kind{
		{
			resource: corev1.SchemeGroupVersion.WithResource("namespaces"), object: "Namespace",
			typed: func(c kubernetes.Interface) client { return newClient(c, c.CoreV1().Namespaces()) },
			informer: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
				return f.Core().V1().Namespaces().Informer()
			},
		},
		{
			resource: corev1.SchemeGroupVersion.WithResource("serviceaccounts"), object: "ServiceAccount",
			typed: func(c kubernetes.Interface) client { return newClient(c, c.CoreV1().ServiceAccounts("")) },
			informer: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
				return f.Core().V1().ServiceAccounts().Informer()
			},
		},
		{
			resource: corev1.SchemeGroupVersion.WithResource("nodes"), object: "Node",
			typed: func(c kubernetes.Interface) client { return newClient(c, c.CoreV1().Nodes()) },
			informer: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
				return f.Core().V1().Nodes().Informer()
			},
		},
		{
			resource: corev1.SchemeGroupVersion.WithResource("pods"), object: "Pod",
			fields: assigned,
			typed:  func(c kubernetes.Interface) client { return newClient(c, c.CoreV1().Pods("")) },
			informer: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
				return f.Core().V1().Pods().Informer()
			},
		},
		{
			resource: discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), object: "EndpointSlice",
			labels: discoveryv1.LabelServiceName,
			typed:  func(c kubernetes.Interface) client { return newClient(c, c.DiscoveryV1().EndpointSlices("")) },
			informer: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
				return f.Discovery().V1().EndpointSlices().Informer()
			},
		},
	}
	for _, group := range []struct {
		version schema.GroupVersion
		objects []string
	}{
		{schema.GroupVersion{Group: "networking.k8s.io", Version: "v1"}, []string{"NetworkPolicy"}},
		{schema.GroupVersion{Group: "policy.networking.k8s.io", Version: "v1alpha2"}, []string{
			clusterNetworkPolicy,
		}},
		{schema.GroupVersion{Group: calicoGroup, Version: "v3"}, []string{
			"Tier", "GlobalNetworkPolicy", "NetworkPolicy", "StagedGlobalNetworkPolicy", "StagedNetworkPolicy",
			"StagedKubernetesNetworkPolicy", "GlobalNetworkSet", "NetworkSet", "HostEndpoint", "IPPool",
		}},
	} {
		for _, object := range group.objects {
			resource, _ := meta.UnsafeGuessKindToResource(group.version.WithKind(object))
			list = append(list, kind{resource: resource, object: object})
		}
	}
	return list
}

// Kinds returns the kinds that a Source reads. Each is written as in kubectl get, in the plural and
// with its API group: "networkpolicies.networking.k8s.io", "pods".
func Kinds() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.String())
	}
	return names
}

// client lists and watches one kind.
type client struct {
	list  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error)
	watch func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
	// get reads one object, whether the selectors of the kind match it or not.
	get func(ctx context.Context, name types.NamespacedName) (metav1.Object, error)
	// streams means that the server may support a list at the beginning of a watch.
	streams bool
}

// newClient returns the client of a kind. set is the clientset that it belongs to.
func newClient[L runtime.Object](set any, c interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
},
) client {
	return client{
		list:    func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return c.List(ctx, o) },
		watch:   c.Watch,
		streams: !watchlist.DoesClientNotSupportWatchListSemantics(set),
	}
}

// client returns the client of the kind with its selectors.
func (k kind) client(typed kubernetes.Interface, other dynamic.Interface) client {
	c := client{}
	if k.typed != nil {
		c = k.typed(typed)
	} else {
		c = newClient(other, other.Resource(k.resource))
	}
	selected := func(o metav1.ListOptions) metav1.ListOptions {
		o.FieldSelector, o.LabelSelector = k.fields, k.labels
		return o
	}
	list, watches := c.list, c.watch
	c.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, selected(o)) }
	c.watch = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return watches(ctx, selected(o))
	}
	c.get = func(ctx context.Context, name types.NamespacedName) (metav1.Object, error) {
		return other.Resource(k.resource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	}
	return c
}
