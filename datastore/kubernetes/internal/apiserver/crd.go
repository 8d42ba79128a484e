// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// The channels of PolicyCRD.
const (
	Standard     = "standard"
	Experimental = "experimental"
)

// PolicyCRD returns the CRD of ClusterNetworkPolicy. The module sigs.k8s.io/network-policy-api has
// two versions of this CRD: one in the channel Standard, and one in the channel Experimental.
func PolicyCRD(t T, channel string) *unstructured.Unstructured {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/network-policy-api")
	cmd.Stderr = os.Stderr
	folder, err := cmd.Output()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)),
		"config", "crd", channel, "policy.networking.k8s.io_clusternetworkpolicies.yaml"))
	require.NoError(t, err)
	crd := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal(text, crd))
	return crd
}

// CalicoCRDs returns CRDs for the kinds of projectcalico.org/v3 that affect policy. They allow any
// fields, so a server with these CRDs accepts every object of these kinds, unlike Calico's API
// server.
func CalicoCRDs() []*unstructured.Unstructured {
	return []*unstructured.Unstructured{
		calicoCRD("GlobalNetworkPolicy", "globalnetworkpolicies", "Cluster"),
		calicoCRD("GlobalNetworkSet", "globalnetworksets", "Cluster"),
		calicoCRD("HostEndpoint", "hostendpoints", "Cluster"),
		calicoCRD("IPPool", "ippools", "Cluster"),
		calicoCRD("NetworkPolicy", "networkpolicies", "Namespaced"),
		calicoCRD("NetworkSet", "networksets", "Namespaced"),
		calicoCRD("StagedGlobalNetworkPolicy", "stagedglobalnetworkpolicies", "Cluster"),
		calicoCRD("StagedKubernetesNetworkPolicy", "stagedkubernetesnetworkpolicies", "Namespaced"),
		calicoCRD("StagedNetworkPolicy", "stagednetworkpolicies", "Namespaced"),
		calicoCRD("Tier", "tiers", "Cluster"),
	}
}

func calicoCRD(kind, plural, scope string) *unstructured.Unstructured {
	const group = "projectcalico.org"
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group,
			"scope": scope,
			"names": map[string]any{
				"kind": kind, "listKind": kind + "List", "plural": plural, "singular": strings.ToLower(kind),
			},
			"versions": []any{map[string]any{
				"name": "v3", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				}},
			}},
		},
	}}
}

// ApplyCRDs creates the CRDs, or updates those that exist. It returns when the server serves their
// kinds.
func (s *Server) ApplyCRDs(crds ...*unstructured.Unstructured) {
	s.t.Helper()
	client, err := dynamic.NewForConfig(s.config)
	require.NoError(s.t, err)
	definitions := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	options := metav1.ApplyOptions{FieldManager: "test", Force: true}
	for _, crd := range crds {
		_, err := definitions.Apply(s.t.Context(), crd.GetName(), crd, options)
		require.NoError(s.t, err)
	}
	for _, crd := range crds {
		s.await(crd.GetName(), func(ctx context.Context) error {
			stored, err := definitions.Get(ctx, crd.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			if !established(stored) {
				return errors.New("it is not established")
			}
			_, err = client.Resource(resourceOf(crd)).List(ctx, metav1.ListOptions{Limit: 1})
			return err
		})
	}
}

// established reports whether the server has accepted a CRD.
func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "Established" && condition["status"] == "True"
	})
}

// resourceOf returns the kind that a CRD defines, in its first version.
func resourceOf(crd *unstructured.Unstructured) schema.GroupVersionResource {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	version, _ := versions[0].(map[string]any)["name"].(string)
	return schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
}
