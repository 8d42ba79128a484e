// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"strings"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
	"k8s.io/apimachinery/pkg/types"
)

// The API versions of the kinds that a Converter accepts, besides calico.APIVersion.
const (
	coreVersion       = "v1"
	discoveryVersion  = "discovery.k8s.io/v1"
	networkingVersion = "networking.k8s.io/v1"
	clusterVersion    = "policy.networking.k8s.io/v1alpha2"
)

// Object identifies an API object, with the fields that an Event or a condition needs.
type Object struct {
	APIVersion string    `json:"apiVersion"` // as in "networking.k8s.io/v1"
	Kind       string    `json:"kind"`
	Namespace  string    `json:"namespace,omitempty"` // empty for a kind without namespaces
	Name       string    `json:"name"`
	UID        types.UID `json:"uid,omitempty"` // empty if not known
}

// String returns the kind and the name, as in "NetworkPolicy shop/web", or in "Tier security" for
// an object without a namespace.
func (o Object) String() string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return strings.TrimSpace(o.Kind + " " + name)
}

// Origin returns the API object from which a Converter made a resource. The argument is the key of
// the resource. Errors, statuses and explanations contain such keys. The UID of the returned object
// is empty. ok is false for the key of a Node, a Block or a ServiceBackends.
//
// Origin derives the kind of the object from the prefix of the name. For example, the policy
// "knp.default.web" comes from the NetworkPolicy web. The package comment has all prefixes. A
// Policy, Profile or NetworkSet without such a prefix comes from a Calico object.
//
// Some resources can come from a Kubernetes or a Calico object, and the key does not show which.
// Then Origin returns the Kubernetes object: a Pod for a WorkloadEndpoint, a Namespace for a
// Profile "kns.NAME", and a Kubernetes Node for a NetworkSet "knode.NAME".
func Origin(key policy.Key) (o Object, ok bool) {
	of := func(version, kind, name string) (Object, bool) {
		return Object{APIVersion: version, Kind: kind, Namespace: key.Namespace, Name: name}, true
	}
	global := func(kind string) string {
		if key.Namespace == "" {
			return "Global" + kind
		}
		return kind
	}
	switch key.Kind {
	case policy.KindPolicy, policy.KindStagedPolicy:
		staged := ""
		if key.Kind == policy.KindStagedPolicy {
			staged = "Staged"
		}
		if name, found := strings.CutPrefix(key.Name, networkPolicyPrefix); found {
			if staged != "" {
				return of(calico.APIVersion, "StagedKubernetesNetworkPolicy", name)
			}
			return of(networkingVersion, "NetworkPolicy", name)
		}
		if name, found := strings.CutPrefix(key.Name, clusterNetworkPolicyPrefix); found && key.Namespace == "" {
			return of(clusterVersion, "ClusterNetworkPolicy", name)
		}
		return of(calico.APIVersion, staged+global("NetworkPolicy"), key.Name)
	case policy.KindProfile:
		if name, found := strings.CutPrefix(key.Name, namespaceProfilePrefix); found {
			return of(coreVersion, "Namespace", name)
		}
		if name, found := strings.CutPrefix(key.Name, serviceAccountProfilePrefix); found {
			namespace, account, found := strings.Cut(name, ".")
			return Object{
				APIVersion: coreVersion, Kind: "ServiceAccount", Namespace: namespace, Name: account,
			}, found
		}
		return of(calico.APIVersion, "Profile", key.Name)
	case policy.KindNetworkSet:
		if name, found := strings.CutPrefix(key.Name, nodeSetPrefix); found && key.Namespace == "" {
			return of(coreVersion, "Node", name)
		}
		return of(calico.APIVersion, global("NetworkSet"), key.Name)
	case policy.KindWorkloadEndpoint:
		return of(coreVersion, "Pod", key.Name)
	case policy.KindHostEndpoint:
		return of(calico.APIVersion, "HostEndpoint", key.Name)
	case policy.KindTier:
		return of(calico.APIVersion, "Tier", key.Name)
	case policy.KindIPPool:
		return of(calico.APIVersion, "IPPool", key.Name)
	}
	return Object{}, false
}
