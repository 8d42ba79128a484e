// SPDX-License-Identifier: Apache-2.0

package folder_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/explain/internal/folder"
)

const namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"

// pod returns a pod in the namespace shop, with the content of its spec and status.
func pod(name, spec, status string) string {
	return "---\napiVersion: v1\nkind: Pod\nmetadata: {namespace: shop, name: " + name + "}\nspec: {" + spec +
		"}\nstatus: {" + status + "}\n"
}

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

func TestReadExplainsExcludedPods(t *testing.T) {
	dir := write(t, map[string]string{
		"a.yaml": namespace +
			pod("web", "nodeName: n", "podIPs: [{ip: 10.0.0.1}]") +
			pod("host", "nodeName: n, hostNetwork: true",
				"hostIP: 192.0.2.1, podIPs: [{ip: 192.0.2.1}, {ip: 'fd00::1'}]") +
			pod("host-new", "nodeName: n, hostNetwork: true", "phase: Pending") +
			pod("done", "nodeName: n", "phase: Succeeded, podIP: 10.0.0.2") +
			pod("broken", "nodeName: n", "phase: Failed, podIP: 10.0.0.3") +
			pod("waiting", "", "phase: Pending") +
			pod("starting", "nodeName: n", "phase: Pending") +
			pod("wrong", "nodeName: n", "podIP: 10.0.0.256"),
		"list.yaml": "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: in-list}, " +
			"spec: {nodeName: n}}\n",
		"pods.json": `{"apiVersion":"v1","kind":"PodList","items":[` +
			`{"metadata":{"name":"in-pods"},"spec":{"nodeName":"n"}}]}` + "\n" +
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"in-stream"},"spec":{}}`,
		"other.yaml": "apiVersion: v1\nkind: Service\n" +
			"metadata: {namespace: shop, name: host}\nspec: {clusterIP: None}\n",
	})
	f, err := folder.Read(folder.Config{Paths: []string{dir}})
	require.NoError(t, err)
	why := map[string]string{}
	for _, o := range f.Index.Excluded() {
		why[o.Name] = o.Why
	}
	for name, want := range map[string]string{
		"shop/host":     "uses the network of its node. Policy does not apply",
		"shop/host-new": "not in the manifest (status.hostIP)",
		"shop/done":     "has ended", "shop/broken": "has ended", "shop/waiting": "is on no node",
		"shop/starting": "has no address", "shop/wrong": "was rejected", "default/in-list": "has no address",
		"default/in-pods": "has no address", "default/in-stream": "is on no node",
	} {
		require.Contains(t, why[name], want, name)
		delete(why, name)
	}
	require.Empty(t, why)
	require.Len(t, f.Index.Endpoints(), 1)
	require.Equal(t, "shop/web", f.Index.Endpoints()[0].Name)
	require.Len(t, f.Rejected, 1)
	require.ErrorContains(t, f.Rejected[0], "status.podIP")
	require.Len(t, f.Notes, 1, "a service is not a policy, which is not an error")
	require.Contains(t, f.Notes[0], "Service shop/host")
	host, err := f.Index.Find("shop/host")
	require.NoError(t, err)
	require.Equal(t, "[192.0.2.1 fd00::1]", stringOf(host[0].Addresses))
}

func stringOf[T interface{ String() string }](list []T) string {
	text := "["
	for i, v := range list {
		if i > 0 {
			text += " "
		}
		text += v.String()
	}
	return text + "]"
}

func TestReadPaths(t *testing.T) {
	dir := write(t, map[string]string{
		"a.yaml": namespace, "sub/b.yml": pod("web", "nodeName: n", "podIP: 10.0.0.1"), ".hidden/c.yaml": "kind: [",
		".d.yaml": "kind: [", "notes.txt": "kind: [", "empty/notes.txt": "", "blank/a.yaml": "# nothing\n",
	})
	flat, err := folder.Read(folder.Config{Paths: []string{dir}})
	require.NoError(t, err)
	require.Empty(t, flat.Index.Endpoints())
	require.Empty(t, flat.Rejected)
	require.Contains(t, flat.Notes, filepath.Join(dir, "sub")+": a folder in a folder is read with --recursive only")
	require.Len(t, flat.Notes, 3)

	deep, err := folder.Read(folder.Config{Paths: []string{dir}, Recursive: true})
	require.NoError(t, err)
	require.Len(t, deep.Index.Endpoints(), 1)
	require.Empty(t, deep.Notes)

	both, err := folder.Read(folder.Config{Paths: []string{dir, filepath.Join(dir, "sub", "b.yml"), dir}})
	require.NoError(t, err)
	require.Len(t, both.Index.Endpoints(), 1)
	require.Empty(t, both.Rejected, "a file that is named twice is read once")

	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file", filepath.Join(dir, "empty"): "no manifests",
		filepath.Join(dir, "blank"): "no objects",
	} {
		_, err := folder.Read(folder.Config{Paths: []string{path}})
		require.ErrorContains(t, err, want)
	}
}

// A second object with the same key is rejected, also in another file.
func TestReadRejectsDuplicates(t *testing.T) {
	dir := write(t, map[string]string{"a.yaml": namespace, "b.yaml": namespace})
	f, err := folder.Read(folder.Config{Paths: []string{dir}})
	require.NoError(t, err)
	require.Len(t, f.Rejected, 1)
	require.ErrorContains(t, f.Rejected[0], "given more than once")
}

// With Assume, pods without a node or addresses are endpoints, and the notes list the invented
// values.
func TestReadAssumesNodesAndAddresses(t *testing.T) {
	dir := write(t, map[string]string{
		"a.yaml": namespace + pod("web", "", "") + pod("api", "nodeName: n", "podIP: 10.0.0.1"),
	})
	f, err := folder.Read(folder.Config{Paths: []string{dir}, Assume: true})
	require.NoError(t, err)
	require.Empty(t, f.Rejected)
	require.Empty(t, f.Index.Excluded())
	require.Len(t, f.Index.Endpoints(), 2)
	require.Len(t, f.Notes, 1)
	require.Contains(t, f.Notes[0], "shop/web is assumed to have node assumed, 198.1")
}
