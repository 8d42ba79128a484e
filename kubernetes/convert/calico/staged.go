// SPDX-License-Identifier: Apache-2.0

package calico

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StagedAction is the change that a staged policy previews for the policy of the same name.
type StagedAction string

// The staged actions. Empty means StagedActionSet.
const (
	// StagedActionSet creates or replaces the policy.
	StagedActionSet StagedAction = "Set"
	// StagedActionDelete deletes the policy.
	StagedActionDelete StagedAction = "Delete"
	// StagedActionLearn marks a recommendation that is still being derived from observed traffic.
	StagedActionLearn StagedAction = "Learn"
	// StagedActionIgnore marks a recommendation that was rejected.
	StagedActionIgnore StagedAction = "Ignore"
)

// StagedGlobalNetworkPolicy is a GlobalNetworkPolicy that is not enforced.
type StagedGlobalNetworkPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec of the policy.
	Spec StagedGlobalNetworkPolicySpec `json:"spec"`
}

// StagedGlobalNetworkPolicySpec is the content of a StagedGlobalNetworkPolicy.
type StagedGlobalNetworkPolicySpec struct {
	GlobalNetworkPolicySpec `json:",inline"`
	// StagedAction of the policy. Empty means Set.
	StagedAction StagedAction `json:"stagedAction,omitempty"`
}

// StagedNetworkPolicy is a NetworkPolicy that is not enforced.
type StagedNetworkPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec of the policy.
	Spec StagedNetworkPolicySpec `json:"spec"`
}

// StagedNetworkPolicySpec is the content of a StagedNetworkPolicy.
type StagedNetworkPolicySpec struct {
	PolicySpec `json:",inline"`
	// StagedAction of the policy. Empty means Set.
	StagedAction StagedAction `json:"stagedAction,omitempty"`
}

// StagedKubernetesNetworkPolicy is a Kubernetes NetworkPolicy that is not enforced.
type StagedKubernetesNetworkPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec of the policy.
	Spec StagedKubernetesNetworkPolicySpec `json:"spec"`
}

// StagedKubernetesNetworkPolicySpec is the content of a StagedKubernetesNetworkPolicy. It has the
// fields of a Kubernetes NetworkPolicy, and the staged action.
type StagedKubernetesNetworkPolicySpec struct {
	networkingv1.NetworkPolicySpec `json:",inline"`
	// StagedAction of the policy. Empty means Set.
	StagedAction StagedAction `json:"stagedAction,omitempty"`
}
