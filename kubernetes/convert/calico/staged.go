// SPDX-License-Identifier: Apache-2.0

package calico

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StagedAction is what a staged policy is going to do to the policy of its name. It is a plain
// value, safe for concurrent use.
type StagedAction string

// The staged actions. Empty means StagedActionSet.
const (
	// StagedActionSet creates or replaces the policy.
	StagedActionSet StagedAction = "Set"
	// StagedActionDelete deletes it.
	StagedActionDelete StagedAction = "Delete"
	// StagedActionLearn marks a policy that is being recommended from traffic.
	StagedActionLearn StagedAction = "Learn"
	// StagedActionIgnore marks a recommendation that was turned down.
	StagedActionIgnore StagedAction = "Ignore"
)

// StagedGlobalNetworkPolicy is a GlobalNetworkPolicy on trial.
type StagedGlobalNetworkPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec is the policy itself.
	Spec StagedGlobalNetworkPolicySpec `json:"spec"`
}

// StagedGlobalNetworkPolicySpec is the content of a StagedGlobalNetworkPolicy.
type StagedGlobalNetworkPolicySpec struct {
	GlobalNetworkPolicySpec `json:",inline"`
	// StagedAction of the policy. Empty means Set.
	StagedAction StagedAction `json:"stagedAction,omitempty"`
}

// StagedNetworkPolicy is a NetworkPolicy on trial.
type StagedNetworkPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec is the policy itself.
	Spec StagedNetworkPolicySpec `json:"spec"`
}

// StagedNetworkPolicySpec is the content of a StagedNetworkPolicy.
type StagedNetworkPolicySpec struct {
	PolicySpec `json:",inline"`
	// StagedAction of the policy. Empty means Set.
	StagedAction StagedAction `json:"stagedAction,omitempty"`
}

// StagedKubernetesNetworkPolicy is a Kubernetes NetworkPolicy on trial.
type StagedKubernetesNetworkPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec is the policy itself.
	Spec StagedKubernetesNetworkPolicySpec `json:"spec"`
}

// StagedKubernetesNetworkPolicySpec is the content of a StagedKubernetesNetworkPolicy: that of a
// Kubernetes NetworkPolicy, and the staged action.
type StagedKubernetesNetworkPolicySpec struct {
	networkingv1.NetworkPolicySpec `json:",inline"`
	// StagedAction of the policy. Empty means Set.
	StagedAction StagedAction `json:"stagedAction,omitempty"`
}
