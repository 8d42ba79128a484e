// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// Annotations of a pod that a Converter with TrustAnnotations uses.
const (
	// AnnotationInterface is a pod annotation. Its value is the name of the host's interface of the
	// pod's link (veth pair). Without this annotation, the name is Attachment.Interface.
	AnnotationInterface = "wayleave.dev/interface"
	// AnnotationMAC is a pod annotation. Its value is the MAC address of the pod's own interface,
	// as in "66:3e:ca:a4:db:65".
	AnnotationMAC = "wayleave.dev/mac"
)

// Converter converts API objects to resources. The zero value is ready to use. A Converter has only
// settings, and is safe for concurrent use.
type Converter struct {
	// Attachment returns the data of a pod's network link (veth pair), for instance from CNI ADD on
	// this node. Fields that it leaves zero have their defaults. It must be safe for concurrent
	// use. Nil means the defaults for all pods.
	Attachment func(*corev1.Pod) Attachment
	// TrustAnnotations uses the annotations AnnotationInterface and AnnotationMAC of pods. The
	// default is to ignore them: otherwise a user who may annotate a pod could give it the
	// interface of another pod. Set it if all objects come from one trusted source, such as a
	// folder of manifests.
	TrustAnnotations bool
	// PodCIDRs makes a Block of every pod CIDR of a Kubernetes Node. With it, other nodes get a
	// route to the pod CIDR. Set it if pods have their addresses from the pod CIDR of their node.
	// The default is to ignore pod CIDRs, because clusters with their own IPAM have them as well,
	// and do not use them.
	PodCIDRs bool
	// PodCIDRTunnels sets the address of the VXLAN device of a Kubernetes Node, for each family.
	// The address is the first address of the first pod CIDR of this family. An address in Calico's
	// annotations takes precedence. The IPAM of the pods must not use the address; the plugin
	// host-local does not. Set PodCIDRTunnels for pools with a VXLAN mode. By default, only
	// Calico's annotations set the address. A node without such an address has no VXLAN device.
	PodCIDRTunnels bool
	// PodCIDRIPIP sets the IPv4 address of the IP-in-IP device of a Kubernetes Node, as
	// PodCIDRTunnels does for the VXLAN device. Set it for pools with an IPIP mode. If both fields
	// are set, the VXLAN device and the IP-in-IP device have the same IPv4 address.
	PodCIDRIPIP bool
	// PodCIDRWireguard sets the addresses of the WireGuard devices of a Kubernetes Node, as
	// PodCIDRTunnels does for the VXLAN device.
	PodCIDRWireguard bool
	// AssumeNetwork also converts pods that have no node or no address, such as pods in manifests
	// of a repository. By default, these pods are ignored. If the pod has no node, the endpoint has
	// the node AssumedNode. If the pod has no address, the endpoint has none either: pass all
	// resources to the function Assume, which adds addresses. Set AssumeNetwork only to check
	// manifests. Never set it on a node, because an endpoint with assumed data is not a running
	// pod.
	AssumeNetwork bool
}

// Attachment describes the link of a pod. A zero field means its default.
type Attachment struct {
	// Interface is the name of the host's side of the link, at most 15 bytes. The default is the
	// result of the function InterfaceName.
	Interface string
	// MAC is the address of the pod's side, in the form "66:3e:ca:a4:db:65". The default is none.
	MAC string
	// Addresses are the addresses of the pod. They are used until the pod's status has all of them.
	// Kubelet reports this status only after CNI ADD. Before, the status may have addresses of an
	// earlier link of the pod, and another pod may already have these addresses. Once the status
	// has all of Addresses, the addresses of the status are used. If Addresses is empty, the
	// addresses of the status are always used.
	Addresses []netip.Addr
}

// InterfaceName is the default name of the host's side of a pod's link. The name is "way" and the
// first 12 hexadecimal digits of the SHA-256 of "namespace/name", 15 bytes in all.
func InterfaceName(namespace, name string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	return "way" + hex.EncodeToString(sum[:])[:12]
}

// Convert converts one object to resources. Most objects become one resource. A Node becomes
// several. An object that is invalid, ignored or not complete yet becomes none. Convert accepts
// pointers to the types in the table of the package comment. For any other type, it returns an
// error that wraps ErrNotSupported. Every error is an *Error.
func (c Converter) Convert(object metav1.Object) ([]policy.Resource, []error) {
	switch o := object.(type) {
	case *corev1.Namespace:
		return one(c.Namespace(o))
	case *corev1.ServiceAccount:
		return one(c.ServiceAccount(o))
	case *corev1.Pod:
		return one(c.Pod(o))
	case *corev1.Node:
		return c.Node(o)
	case *corev1.Service:
		return nil, c.Service(o)
	case *discoveryv1.EndpointSlice:
		return one(c.EndpointSlice(o))
	case *networkingv1.NetworkPolicy:
		return one(c.NetworkPolicy(o))
	case *policyv1alpha2.ClusterNetworkPolicy:
		return one(c.ClusterNetworkPolicy(o))
	}
	return c.calico(object)
}

// Changes returns the updates for a changed object: the resources of its new version, and deletions
// of the resources that only its old version had. The argument before is the old version, or nil
// for a new object. It must be the version that was converted last: an informer passes this version
// to its update handler. The argument now is the new version, or nil for a deleted object.
//
// Errors: those that Convert returns for the new version.
func (c Converter) Changes(before, now metav1.Object) (updates []policy.Update, problems []error) {
	kept := map[policy.Key]bool{}
	if now != nil {
		var resources []policy.Resource
		resources, problems = c.Convert(now)
		for _, r := range resources {
			kept[r.Key()] = true
			updates = append(updates, policy.Update{Key: r.Key(), Resource: r})
		}
	}
	if before != nil {
		resources, _ := c.Convert(before) // its errors were reported
		for _, r := range resources {
			if !kept[r.Key()] {
				updates = append(updates, policy.Update{Key: r.Key()})
			}
		}
	}
	return updates, problems
}

// calico is Convert for the types of package calico.
func (c Converter) calico(object metav1.Object) ([]policy.Resource, []error) {
	switch o := object.(type) {
	case *calico.GlobalNetworkPolicy:
		return one(c.CalicoGlobalNetworkPolicy(o))
	case *calico.NetworkPolicy:
		return one(c.CalicoNetworkPolicy(o))
	case *calico.StagedGlobalNetworkPolicy:
		return one(c.CalicoStagedGlobalNetworkPolicy(o))
	case *calico.StagedNetworkPolicy:
		return one(c.CalicoStagedNetworkPolicy(o))
	case *calico.StagedKubernetesNetworkPolicy:
		return one(c.CalicoStagedKubernetesNetworkPolicy(o))
	case *calico.Tier:
		return one(c.CalicoTier(o))
	case *calico.Profile:
		return one(c.CalicoProfile(o))
	case *calico.GlobalNetworkSet:
		return one(c.CalicoGlobalNetworkSet(o))
	case *calico.NetworkSet:
		return one(c.CalicoNetworkSet(o))
	case *calico.HostEndpoint:
		return one(c.CalicoHostEndpoint(o))
	case *calico.WorkloadEndpoint:
		return one(c.CalicoWorkloadEndpoint(o))
	case *calico.IPPool:
		return one(c.CalicoIPPool(o))
	case *calico.Node:
		return c.CalicoNode(o)
	}
	return nil, []error{&Error{Object: Object{Kind: fmt.Sprintf("%T", object)}, Err: ErrNotSupported, Absent: true}}
}

// one returns a list of one pointer, or an empty list for a nil pointer.
func one[T any, P interface {
	*T
	policy.Resource
}](p P, problems []error) ([]policy.Resource, []error) {
	if p == nil {
		return nil, problems
	}
	return []policy.Resource{p}, problems
}

// finish makes a resource canonical and validates it. It also returns all problems of p and of the
// validation. If one of them prevents the conversion, it returns no resource.
func finish[T any, P interface {
	*T
	policy.Resource
}](r P, p *problems, path func(string) string) (P, []error) {
	if p.any() {
		return nil, p.refused()
	}
	canonical, ok := policy.Canonical(r).(P)
	if !ok {
		p.addf("", "internal error: the canonical form is of another kind")
		return nil, p.refused()
	}
	validate(canonical, p, path)
	if p.any() {
		return nil, p.refused()
	}
	return canonical, p.warnings
}
