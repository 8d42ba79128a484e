// SPDX-License-Identifier: Apache-2.0

package calico

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// APIVersion is the apiVersion of every object of this package.
const APIVersion = "projectcalico.org/v3"

// Unsupported is the type of a field of the Calico API that Wayleave does not support. An
// Unsupported is true if the object sets the field to a value other than null and false.
type Unsupported bool

// UnmarshalJSON records whether the field has a value. It never fails.
func (u *Unsupported) UnmarshalJSON(data []byte) error {
	s := string(data)
	*u = s != "null" && s != "false"
	return nil
}

// Ignored is the type of a field of the Calico API that has no effect in Wayleave. Examples are the
// settings that decide how the addresses of a pool are assigned. Ignored accepts any value.
type Ignored struct{}

// UnmarshalJSON accepts any value. It never fails.
func (*Ignored) UnmarshalJSON([]byte) error { return nil }

// GlobalNetworkPolicy is a policy for the endpoints of all namespaces.
type GlobalNetworkPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec of the policy.
	Spec GlobalNetworkPolicySpec `json:"spec"`
}

// GlobalNetworkPolicySpec is the content of a GlobalNetworkPolicy.
type GlobalNetworkPolicySpec struct {
	PolicySpec `json:",inline"`
	// NamespaceSelector limits the policy to endpoints of matching namespaces. Empty means no
	// limit.
	NamespaceSelector string `json:"namespaceSelector,omitempty"`
	// DoNotTrack applies the policy to host endpoints before connection tracking.
	DoNotTrack bool `json:"doNotTrack,omitempty"`
	// PreDNAT applies the policy to host endpoints before destination NAT.
	PreDNAT bool `json:"preDNAT,omitempty"`
	// ApplyOnForward applies the policy also to packets that host endpoints forward.
	ApplyOnForward bool `json:"applyOnForward,omitempty"`
}

// NetworkPolicy is a policy for the endpoints of one namespace.
type NetworkPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec of the policy.
	Spec PolicySpec `json:"spec"`
}

// PolicySpec has the fields that GlobalNetworkPolicy and NetworkPolicy have in common. Each field
// has the same meaning as the field of policy.Policy with the same name.
type PolicySpec struct {
	// Tier of the policy. Empty means "default".
	Tier string `json:"tier,omitempty"`
	// Order within the tier, smaller first. Nil means last.
	Order *float64 `json:"order,omitempty"`
	// Ingress rules.
	Ingress []Rule `json:"ingress,omitempty"`
	// Egress rules.
	Egress []Rule `json:"egress,omitempty"`
	// Selector over endpoint labels. Empty selects all.
	Selector string `json:"selector,omitempty"`
	// Types: "Ingress", "Egress". Empty means that they follow from the rules.
	Types []string `json:"types,omitempty"`
	// ServiceAccountSelector limits the policy by labels of the service account.
	ServiceAccountSelector string `json:"serviceAccountSelector,omitempty"`
	// PerformanceHints: "AssumeNeededOnEveryNode".
	PerformanceHints []string `json:"performanceHints,omitempty"`
}

// Rule is one rule of a policy or profile.
type Rule struct {
	// Action: "Allow", "Deny", "Pass" or "Log", in exactly this spelling. Required.
	Action string `json:"action"`
	// IPVersion is 4 or 6. Nil means both.
	IPVersion *int `json:"ipVersion,omitempty"`
	// Protocol by name or number. Nil means any.
	Protocol *intstr.IntOrString `json:"protocol,omitempty"`
	// ICMP type and code.
	ICMP *ICMP `json:"icmp,omitempty"`
	// NotProtocol excludes a protocol.
	NotProtocol *intstr.IntOrString `json:"notProtocol,omitempty"`
	// NotICMP excludes a type, or one code of a type.
	NotICMP *ICMP `json:"notICMP,omitempty"`
	// Source of the packet.
	Source EntityRule `json:"source,omitempty"`
	// Destination of the packet.
	Destination EntityRule `json:"destination,omitempty"`
	// HTTP is not supported.
	HTTP Unsupported `json:"http,omitempty"`
	// Metadata has no effect on traffic.
	Metadata *RuleMetadata `json:"metadata,omitempty"`
}

// ICMP is a type, or a type and code.
type ICMP struct {
	// Type, 0 to 254.
	Type *int `json:"type,omitempty"`
	// Code, 0 to 255. Nil means every code.
	Code *int `json:"code,omitempty"`
}

// EntityRule is one side of a rule.
type EntityRule struct {
	// Nets in CIDR form or as bare addresses.
	Nets []string `json:"nets,omitempty"`
	// NotNets excludes networks.
	NotNets []string `json:"notNets,omitempty"`
	// Selector over labels of endpoints and network sets.
	Selector string `json:"selector,omitempty"`
	// NotSelector excludes the endpoints and network sets that match.
	NotSelector string `json:"notSelector,omitempty"`
	// NamespaceSelector over labels of namespaces.
	NamespaceSelector string `json:"namespaceSelector,omitempty"`
	// Ports: numbers, ranges "a:b", or names.
	Ports []intstr.IntOrString `json:"ports,omitempty"`
	// NotPorts excludes ports.
	NotPorts []intstr.IntOrString `json:"notPorts,omitempty"`
	// ServiceAccounts limits the endpoints by service account.
	ServiceAccounts *ServiceAccountMatch `json:"serviceAccounts,omitempty"`
	// Services limits the side to the backends of a service.
	Services *ServiceMatch `json:"services,omitempty"`
}

// ServiceMatch names a service.
type ServiceMatch struct {
	// Name of the service.
	Name string `json:"name,omitempty"`
	// Namespace of the service. Empty means that of the policy.
	Namespace string `json:"namespace,omitempty"`
}

// ServiceAccountMatch selects service accounts.
type ServiceAccountMatch struct {
	// Names of which one must match. Empty means any name.
	Names []string `json:"names,omitempty"`
	// Selector over labels of service accounts. Empty means any.
	Selector string `json:"selector,omitempty"`
}

// RuleMetadata is information for users.
type RuleMetadata struct {
	// Annotations are arbitrary keys and values.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Tier groups policies.
type Tier struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec of the tier.
	Spec TierSpec `json:"spec"`
}

// TierSpec is the content of a Tier.
type TierSpec struct {
	// Order among tiers, smaller first. Nil means last.
	Order *float64 `json:"order,omitempty"`
	// DefaultAction: "Deny" or "Pass". Empty means Deny.
	DefaultAction string `json:"defaultAction,omitempty"`
}

// Profile has labels and rules for the endpoints that list it.
type Profile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec of the profile.
	Spec ProfileSpec `json:"spec"`
}

// ProfileSpec is the content of a Profile.
type ProfileSpec struct {
	// Ingress rules.
	Ingress []Rule `json:"ingress,omitempty"`
	// Egress rules.
	Egress []Rule `json:"egress,omitempty"`
	// LabelsToApply are added to the labels of the endpoints.
	LabelsToApply map[string]string `json:"labelsToApply,omitempty"`
}

// GlobalNetworkSet is a set of networks with labels. It has no namespace.
type GlobalNetworkSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec of the set.
	Spec NetworkSetSpec `json:"spec"`
}

// NetworkSet is a set of networks with labels. It has a namespace.
type NetworkSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec of the set.
	Spec NetworkSetSpec `json:"spec"`
}

// NetworkSetSpec is the content of both kinds of network set.
type NetworkSetSpec struct {
	// Nets in CIDR form or as bare addresses.
	Nets []string `json:"nets,omitempty"`
}

// New returns an empty object of a kind of this package, or nil for any other kind.
func New(kind string) metav1.Object {
	switch kind {
	case "GlobalNetworkPolicy":
		return &GlobalNetworkPolicy{}
	case "NetworkPolicy":
		return &NetworkPolicy{}
	case "StagedGlobalNetworkPolicy":
		return &StagedGlobalNetworkPolicy{}
	case "StagedNetworkPolicy":
		return &StagedNetworkPolicy{}
	case "StagedKubernetesNetworkPolicy":
		return &StagedKubernetesNetworkPolicy{}
	case "Tier":
		return &Tier{}
	case "Profile":
		return &Profile{}
	case "GlobalNetworkSet":
		return &GlobalNetworkSet{}
	case "NetworkSet":
		return &NetworkSet{}
	case "HostEndpoint":
		return &HostEndpoint{}
	case "WorkloadEndpoint":
		return &WorkloadEndpoint{}
	case "IPPool":
		return &IPPool{}
	case "Node":
		return &Node{}
	}
	return nil
}
