// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations of a pod that a Converter with TrustAnnotations obeys.
const (
	// AnnotationInterface names the host's side of the pod's link, instead of InterfaceName.
	AnnotationInterface = "wayleave.dev/interface"
	// AnnotationMAC is the MAC address of the pod's side of the link, as in "66:3e:ca:a4:db:65".
	AnnotationMAC = "wayleave.dev/mac"
)

// Converter turns API objects into resources. The zero value is ready to use. A Converter
// holds settings only and is safe for concurrent use.
type Converter struct {
	// InterfaceName returns the name of the host's side of a pod's link, at most 15
	// bytes. It must be a pure function, safe for concurrent use. Nil means the function InterfaceName.
	InterfaceName func(namespace, name string) string
	// TrustAnnotations makes pods' annotations count (AnnotationInterface, AnnotationMAC). The
	// default is to ignore them: who may annotate a pod could otherwise have it take the place of
	// another pod's interface. Set it where all objects come from one trusted
	// hand, such as a folder of manifests.
	TrustAnnotations bool
}

// InterfaceName is the default name of the host's side of a pod's link: "way" and the
// first 12 hexadecimal digits of the SHA-256 of "namespace/name", 15 bytes in all.
func InterfaceName(namespace, name string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	return "way" + hex.EncodeToString(sum[:])[:12]
}

// Convert turns one object into at most one resource. Every error is an *Error. It takes
// pointers to the Kubernetes types Namespace (v1), Pod (v1) and NetworkPolicy
// (networking.k8s.io/v1) and to the types of package calico; for any other
// type it returns an error that wraps ErrNotSupported.
func (c Converter) Convert(object metav1.Object) (policy.Resource, []error) {
	switch o := object.(type) {
	case *corev1.Namespace:
		return resource(c.Namespace(o))
	case *corev1.Pod:
		return resource(c.Pod(o))
	case *networkingv1.NetworkPolicy:
		return resource(c.NetworkPolicy(o))
	case *calico.GlobalNetworkPolicy:
		return resource(c.CalicoGlobalNetworkPolicy(o))
	case *calico.NetworkPolicy:
		return resource(c.CalicoNetworkPolicy(o))
	case *calico.Tier:
		return resource(c.CalicoTier(o))
	case *calico.Profile:
		return resource(c.CalicoProfile(o))
	case *calico.GlobalNetworkSet:
		return resource(c.CalicoGlobalNetworkSet(o))
	case *calico.NetworkSet:
		return resource(c.CalicoNetworkSet(o))
	}
	return nil, []error{&Error{Object: fmt.Sprintf("%T", object), Err: ErrNotSupported}}
}

// resource makes a resource of a typed pointer, so that a nil pointer becomes a nil resource.
func resource[T any, P interface {
	*T
	policy.Resource
}](p P, problems []error) (policy.Resource, []error) {
	if p == nil {
		return nil, problems
	}
	return p, problems
}

// finish brings a resource into canonical form and validates it. It returns nil where
// there is any problem, old or new.
func finish[T any, P interface {
	*T
	policy.Resource
}](r P, p *problems, path func(string) string) (P, []error) {
	if p.any() {
		return nil, p.list
	}
	canonical, ok := policy.Canonical(r).(P)
	if !ok {
		p.addf("", "internal error: the canonical form is of another kind")
		return nil, p.list
	}
	validate(canonical, p, path)
	if p.any() {
		return nil, p.list
	}
	return canonical, nil
}
