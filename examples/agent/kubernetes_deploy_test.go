// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/examples/agent/internal/cniinstall"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
)

// parsed returns the settings of a command line of a container.
func parsed(t *testing.T, c corev1.Container) settings.Settings {
	t.Helper()
	s := settings.Defaults()
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	settings.Declare(flags, &s)
	require.NoError(t, flags.Parse(c.Args[1:]))
	return s
}

// The agent of a cluster may read exactly the kinds that its source reads, and the ConfigMaps of
// its namespace.
func TestKubernetesRights(t *testing.T) {
	objects := deployed(t, "kubernetes.yaml")
	reads := []string{"get", "list", "watch"}
	var kinds []string
	for _, rule := range only[*rbacv1.ClusterRole](t, objects, "wayleave-agent").Rules {
		require.Equal(t, reads, rule.Verbs)
		require.Empty(t, rule.ResourceNames)
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				kinds = append(kinds, strings.TrimSuffix(resource+"."+group, "."))
			}
		}
	}
	want := kubernetes.Kinds()
	slices.Sort(kinds)
	slices.Sort(want)
	require.Equal(t, want, kinds)
	require.Equal(t, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: reads}},
		only[*rbacv1.Role](t, objects, "wayleave-agent").Rules)

	account := only[*corev1.ServiceAccount](t, objects, "wayleave-agent")
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}}
	everywhere := only[*rbacv1.ClusterRoleBinding](t, objects, "wayleave-agent")
	require.Equal(t, subjects, everywhere.Subjects)
	require.Equal(t, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "wayleave-agent"},
		everywhere.RoleRef)
	inside := only[*rbacv1.RoleBinding](t, objects, "wayleave-agent")
	require.Equal(t, subjects, inside.Subjects)
	require.Equal(t, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "wayleave-agent"}, inside.RoleRef)
	require.Equal(t, account.Namespace, inside.Namespace)
	set := only[*appsv1.DaemonSet](t, objects, "wayleave-agent")
	require.Equal(t, account.Name, set.Spec.Template.Spec.ServiceAccountName)
}

// The agent has the rights that the documentation of package report lists, and no others.
func TestKubernetesRightsToWrite(t *testing.T) {
	objects := deployed(t, "kubernetes.yaml")
	var rights []string
	for _, rule := range append(only[*rbacv1.ClusterRole](t, objects, "wayleave-status").Rules,
		only[*rbacv1.Role](t, objects, "wayleave-status").Rules...) {
		for _, resource := range rule.Resources {
			right := fmt.Sprintf("%s/%s %s", rule.APIGroups[0], resource, strings.Join(rule.Verbs, ","))
			for _, name := range rule.ResourceNames {
				right += " of " + name
			}
			rights = append(rights, right)
		}
	}
	require.ElementsMatch(t, []string{
		"/events create,patch", "/nodes patch", "/nodes/status patch", "wayleave.dev/nodereports get,create,update",
		"policy.networking.k8s.io/clusternetworkpolicies/status patch",
		// The other Leases of kube-system are those of the control plane.
		"coordination.k8s.io/leases create", "coordination.k8s.io/leases get,update of wayleave-reporter",
	}, rights)
	require.Equal(t, metav1.NamespaceSystem, only[*rbacv1.Role](t, objects, "wayleave-status").Namespace)
	require.Equal(t, "wayleave-agent", only[*rbacv1.ClusterRoleBinding](t, objects, "wayleave-status").Subjects[0].Name)
	require.Equal(t, "wayleave-agent", only[*rbacv1.RoleBinding](t, objects, "wayleave-status").Subjects[0].Name)
}

// The agent may announce its WireGuard keys even without the rights that package report needs.
func TestKubernetesRightsOfWireguard(t *testing.T) {
	objects := deployed(t, "kubernetes.yaml")
	require.Equal(t, []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"patch"}},
	}, only[*rbacv1.ClusterRole](t, objects, "wayleave-wireguard").Rules)
	binding := only[*rbacv1.ClusterRoleBinding](t, objects, "wayleave-wireguard")
	require.Equal(t, "wayleave-wireguard", binding.RoleRef.Name)
	require.Equal(t, only[*rbacv1.ClusterRoleBinding](t, objects, "wayleave-agent").Subjects, binding.Subjects)
	for _, volume := range only[*appsv1.DaemonSet](t, objects, "wayleave-agent").Spec.Template.Spec.Volumes {
		if volume.HostPath != nil && strings.HasPrefix(settings.Defaults().WireguardDir, volume.HostPath.Path+"/") {
			return
		}
	}
	require.Fail(t, "the private keys are lost with the pod")
}

// The agent runs with the settings and the network configuration of the ConfigMaps that are
// deployed with it.
func TestKubernetesDaemonSet(t *testing.T) {
	objects := deployed(t, "kubernetes.yaml")
	set := only[*appsv1.DaemonSet](t, objects, "wayleave-agent")
	checkDaemonSet(t, set)
	pod := set.Spec.Template.Spec
	require.True(t, *pod.Containers[0].SecurityContext.Privileged)
	for _, o := range objects {
		require.Contains(t, []string{"", set.Namespace, metav1.NamespaceSystem}, o.GetNamespace())
	}
	s := parsed(t, pod.Containers[0])
	require.True(t, s.ReadsKubernetes())
	namespace, name, _ := strings.Cut(s.KubernetesConfig, "/")
	require.Equal(t, set.Namespace, namespace)
	_, err := settings.Resolve(settings.Layer{
		Source: "deployed", Datastore: true, Values: only[*corev1.ConfigMap](t, objects, name).Data,
	})
	require.NoError(t, err)

	// The pool in the manifests is valid. Packets that leave the cluster get the address of a node.
	require.Equal(t, "/etc/wayleave/manifests", s.Manifests)
	resources, problems := manifest.Decode("pools.yaml",
		[]byte(only[*corev1.ConfigMap](t, objects, "manifests").Data["pools.yaml"]))
	require.Empty(t, problems)
	require.True(t, resources[0].(*policy.IPPool).NATOutgoing)

	conflist := []byte(only[*corev1.ConfigMap](t, objects, "cni").Data["wayleave.conflist"])
	require.True(t, cniinstall.NeedsPodCIDRs(conflist))
	require.True(t, s.KubernetesPodCIDRs, "other nodes need routes to the pods")
	conflist, err = cniinstall.WithPodCIDRs(conflist, "n", []string{"10.1.2.0/24"})
	require.NoError(t, err)
	plugin := filepath.Join(t.TempDir(), "plugin")
	require.NoError(t, os.WriteFile(plugin, nil, 0o600))
	require.NoError(t, cniinstall.Install(cniinstall.Config{
		Plugin: plugin, Conflist: conflist, BinDir: t.TempDir(), ConfDir: t.TempDir(),
	}))
}

// The uninstall pods mount folders of the node as the agent's pods do, and have no access to the
// API.
func TestKubernetesUninstall(t *testing.T) {
	agent := only[*appsv1.DaemonSet](t, deployed(t, "kubernetes.yaml"), "wayleave-agent")
	set := only[*appsv1.DaemonSet](t, deployed(t, "uninstall.yaml"), "wayleave-uninstall")
	require.Equal(t, agent.Namespace, set.Namespace)
	require.Equal(t, set.Spec.Selector.MatchLabels, set.Spec.Template.Labels)
	pod, of := set.Spec.Template.Spec, agent.Spec.Template.Spec
	require.False(t, *pod.AutomountServiceAccountToken)
	require.Equal(t, of.Tolerations, pod.Tolerations)
	require.True(t, pod.HostNetwork)
	paths := func(s corev1.PodSpec, c corev1.Container) map[string]string {
		found := map[string]string{} // in the container, by path on the node
		for _, mount := range c.VolumeMounts {
			for _, v := range s.Volumes {
				if v.Name == mount.Name && v.HostPath != nil {
					found[v.HostPath.Path] = mount.MountPath
				}
			}
		}
		return found
	}
	require.Subset(t, paths(of, of.InitContainers[0]), paths(pod, pod.InitContainers[0]))
	require.Subset(t, paths(of, of.Containers[0]), paths(pod, pod.Containers[0]))
	require.Equal(t, of.Containers[0].SecurityContext, pod.Containers[0].SecurityContext)
	teardown := pod.InitContainers[1] // the pod is not ready before this container ends
	require.Equal(t, []string{"teardown"}, teardown.Args)
	require.Equal(t, pod.Containers[0].SecurityContext, teardown.SecurityContext)
	require.Equal(t, pod.Containers[0].VolumeMounts, teardown.VolumeMounts)
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		code, _, errs := call(t, c.Args[0], "--help")
		require.Zero(t, code, errs)
	}
	dir := folderOf(t, map[string]string{"10-wayleave.conflist": "{}", "20-other.conflist": "{}"})
	for range 2 {
		code, _, errs := call(t, "uninstall-cni", "--conf-dir", dir)
		require.Zero(t, code, errs)
	}
	require.NoFileExists(t, dir+"/10-wayleave.conflist")
	require.FileExists(t, dir+"/20-other.conflist")
}

func TestInstallCNICommand(t *testing.T) {
	dir := folderOf(t, map[string]string{
		"plugin":   "binary",
		"conflist": `{"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "wayleave"}]}`,
		"cidrs":    `{"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "wayleave", "ranges": "POD_CIDRS"}]}`,
	})
	run := func(conflist string, more ...string) (int, string) {
		code, out, errs := call(t, append([]string{
			"install-cni", "--plugin", dir + "/plugin", "--conflist", dir + "/" + conflist, "--bin-dir", dir + "/bin",
			"--conf-dir", dir + "/conf",
		}, more...)...)
		return code, out + errs
	}
	code, text := run("cidrs")
	require.Equal(t, 2, code)
	require.Contains(t, text, `the configuration has "POD_CIDRS": --in-cluster or --kubeconfig is required`)
	code, text = run("cidrs", "--kubeconfig", "/does/not/exist")
	require.Equal(t, 1, code)
	require.Contains(t, text, "kubeconfig: open /does/not/exist")
	require.NoDirExists(t, dir+"/bin")
	code, text = run("conflist")
	require.Zero(t, code, text)
	require.FileExists(t, dir+"/bin/wayleave")
	require.FileExists(t, dir+"/conf/10-wayleave.conflist")
	code, _, errs := call(t, "install-cni")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "--plugin and --conflist are required")
}
