// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
)

var update = flag.Bool("update", false, "rewrite testdata/bad.errors")

// keys returns the keys of resources.
func keys(resources []policy.Resource) []string {
	list := []string{}
	for _, r := range resources {
		list = append(list, r.Key().String())
	}
	return list
}

func texts(errs []error) string {
	list := make([]string, 0, len(errs))
	for _, err := range errs {
		list = append(list, err.Error())
	}
	return strings.Join(list, "\n")
}

// Every malformed document is reported with its place. The other documents are read.
func TestMalformedDocumentsAreReported(t *testing.T) {
	data, err := os.ReadFile("testdata/bad.yaml")
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/bad.errors")
	require.NoError(t, err)
	resources, problems := manifest.Decode("bad.yaml", data)
	if *update {
		require.NoError(t, os.WriteFile("testdata/bad.errors", []byte(texts(problems)+"\n"), 0o600))
		return
	}
	require.Equal(t, strings.TrimSpace(string(want)), texts(problems))
	require.Equal(t, []string{
		"Profile/kns.first", "Policy/shop/knp.default.half", "Policy/shop/knp.default.dash", "Profile/kns.listed",
		"Policy/security.c", "Profile/kns.last",
	}, keys(resources))
}

// Output of kubectl is read unchanged, with lists, status, managed fields, and fields of newer
// clusters in the status.
func TestKubectlOutputIsRead(t *testing.T) {
	for _, file := range []string{"kubectl.yaml", "kubectl.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", file))
		require.NoError(t, err)
		resources, problems := manifest.Decode(file, data)
		require.Empty(t, problems)
		require.Equal(t, []string{"Profile/kns.shop", "WorkloadEndpoint/shop/web-0", "Policy/shop/knp.default.web"},
			keys(resources), file)
	}
}

const ns = "apiVersion: v1\nkind: Namespace\nmetadata: {name: %}\n"

func namespace(name string) string { return strings.ReplaceAll(ns, "%", name) }

// jsonOf returns a namespace as JSON.
func jsonOf(name string) string {
	return `{"apiVersion":"v1","kind":"Namespace",` + "\n\t" + `"metadata":{"name":"` + name + `"}}`
}

// stream is the content of a file, and the expected resources and errors.
type stream struct {
	name, data string
	want       []string
	errors     string
}

func runStreams(t *testing.T, tests []stream) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resources, problems := manifest.Decode("f", []byte(tt.data))
			require.Equal(t, tt.errors, texts(problems))
			require.Equal(t, tt.want, keys(resources))
		})
	}
}

// JSON is recognised before documents are split, because its strings may contain a marker.
func TestJSONStreams(t *testing.T) {
	a, b := namespace("a"), namespace("b")
	both, first := []string{"Profile/kns.a", "Profile/kns.b"}, []string{"Profile/kns.a"}
	runStreams(t, []stream{
		{"byte order mark and JSON", "\ufeff" + jsonOf("a") + jsonOf("b"), both, ""},
		{"JSON behind a marker", "---\n" + jsonOf("a") + "\n# x\n---\n\n" + jsonOf("b") + "\n", both, ""},
		{"JSON behind a marker, then a marker", "---\n" + jsonOf("a") +
			"--- x\n", []string{}, "f: document 1: line 2: did not find expected <document start>"},
		{
			"JSON with line breaks of YAML in a string", strings.ReplaceAll(jsonOf("a"), `{"name"`,
				"{\"annotations\":{\"x\":\"\u2028---\u2029...\u0085---\\t\u007f\u009f\ufeff\uffff\"},\"name\"") +
				jsonOf("b"),
			both, "",
		},
		{
			"the same behind a marker", "---\n" + strings.ReplaceAll(jsonOf("a"), `{"name"`,
				"{\"annotations\":{\"x\":\"\u2028--- \u2029\"},\"name\"") + "\n---\n" + b,
			both, "",
		},
		{"YAML, then JSON", a + "---\n" + jsonOf("b"), both, ""},
		{"JSON alone behind a marker", "---\r\n" + jsonOf("a"), first, ""},
	})
}

// Lists can be nested, up to 10 levels.
func TestLists(t *testing.T) {
	first := []string{"Profile/kns.a"}
	runStreams(t, []stream{
		{
			"a list in a list", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: List, items: " +
				"[{apiVersion: v1, kind: NamespaceList, items: [{metadata: {name: a}}]}]}\n" +
				"- {apiVersion: v1, kind: Namespace, metadata: {name: b, lables: {}}}\n" +
				"- {apiVersion: v1, kind: List, item: []}\n",
			first,
			"f: document 1: line 5: Namespace b: items[1].metadata.lables: unknown field\n" +
				"f: document 1: line 6: List: items[2].item: unknown field",
		},
		{
			"a list of itself", "&l\napiVersion: v1\nkind: List\nitems: [*l]\n",
			[]string{},
			"f: document 1: line 4: List: items[0]" + strings.Repeat(".items[0]", 9) +
				": lists are nested more than 10 levels deep",
		},
		{
			"items of itself", "apiVersion: v1\nkind: List\nitems: &i\n- {apiVersion: v1, kind: List, items: *i}\n",
			[]string{},
			"f: document 1: line 4: List: items[0]" + strings.Repeat(".items[0]", 9) +
				": lists are nested more than 10 levels deep",
		},
	})
}

func TestStreams(t *testing.T) {
	a, b := namespace("a"), namespace("b")
	both, first := []string{"Profile/kns.a", "Profile/kns.b"}, []string{"Profile/kns.a"}
	tests := []stream{
		{"nothing", "", []string{}, ""},
		{"comments", "# a\n---\n# b\n---\n\n...\n", []string{}, ""},
		{"null", "null\n---\n~\n", []string{}, ""},
		{"two", a + "---\n" + b, both, ""},
		{"marker first", "---\n" + a + "--- # b\n" + b + "---\n", both, ""},
		{"content in the marker's line", "--- {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n---\n" +
			b, both, ""},
		{"end markers", a + "...\n---\n" + b + "...\n", both, ""},
		{"end marker alone", a + "...\n" + b, both, ""},
		{"directive", "%YAML 1.2\n---\n" + a, first, ""},
		{"CRLF", strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n"), both, ""},
		{"CR", strings.ReplaceAll(a+"---\n"+b, "\n", "\r"), both, ""},
		{"byte order mark", "\ufeff" + a + "---\n" + b, both, ""},
		{"byte order mark and marker", "\ufeff---\n" + a + "---\n" + b, both, ""},
		{"dashes in a block", "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  annotations:\n    x: |\n" +
			"      ---\n      ...\n", first, ""},
		{"dashes in a word", "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  annotations:\n" +
			"    ---x: y\n", first, ""},
		{"broken between", a + "---\nx: [\n---\n" +
			b, both, "f: document 2: line 5: did not find expected node content"},
		{"JSON", jsonOf("a"), first, ""},
		{"JSON stream", jsonOf("a") + jsonOf("b") + "\n# end\n", both, ""},
		{"JSON, then rubbish", jsonOf("a") + "\n]", first, "f: document 2: line 2: did not find expected node content"},
		{"JSON and YAML", jsonOf("a") + "\n---\n" + b, both, ""},
		{"flow without a marker between", "---\n{}\n{}\n", []string{}, "f: document 1: line 2: did not find expected " +
			"<document start>"},
		{
			"escapes of JSON", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"\u0061",` +
				`"annotations":{"a\/b":"\ud83d\ude00 \\/ \\ud83d"}}}`,
			first, "",
		},
		{
			"half an escape of JSON",
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","annotations":{"a":"\ud83dx"}}}`,
			[]string{},
			"f: document 1: line 1: found invalid Unicode character escape code",
		},
		{
			"a tag that lies", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: !!null x}\n",
			[]string{},
			`f: document 1: line 3: Namespace a: metadata.labels: "x" is not a value of type !!null`,
		},
		{"aliases", "apiVersion: v1\nkind: Namespace\nmetadata: {name: &n a, labels: {x: *n}}\n", first, ""},
		{
			"an alias of itself", "apiVersion: v1\nkind: List\nitems: &x [*x]\n",
			[]string{},
			"f: document 1: line 3: items[0]" + strings.Repeat("[0]", 50) + ": more than 100 levels deep",
		},
		{"empty list", "apiVersion: v1\nkind: List\nitems:\nmetadata: {resourceVersion: ''}\n", []string{}, ""},
		{"unknown field of a list", "apiVersion: v1\nkind: List\nitem: []\n", []string{}, "f: document 1: line 3: " +
			"List: item: unknown field"},
		{"items of a list", "apiVersion: v1\nkind: List\nitems: {}\n", []string{}, "f: document 1: line 3: List: " +
			"items: want a list"},
		{
			"a mapping for a list", "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\n" +
				"spec:\n  podSelector: {}\n  ingress: {from: []}\n",
			[]string{"Policy/default/knp.default.a"},
			"f: document 1: line 6: NetworkPolicy a: spec.ingress: want a list",
		},
		{
			"a list for a mapping",
			"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec:\n  podSelector: [a]\n",
			[]string{},
			"f: document 1: line 5: NetworkPolicy a: spec.podSelector: want a mapping, not array",
		},
		{"no kind", "metadata: {name: a}\n", []string{}, "f: document 1: line 1: a: want an object with " +
			"apiVersion and kind"},
		{"items twice", "apiVersion: v1\nkind: List\n" +
			"items: []\nitems: []\n", []string{}, "f: document 1: line 4: List: items: the key is given twice"},
		{"kind of a list twice", "apiVersion: v1\nkind: List\nkind: Pod\n", []string{}, "f: document 1: line 3: " +
			"List: kind: the key is given twice"},
		{"typed list", "apiVersion: v1\nkind: NamespaceList\nitems: [{metadata: {name: a}}]\n", first, ""},
		{
			"unknown typed list", "apiVersion: v1\nkind: SecretList\nitems: []\n",
			[]string{},
			`f: document 1: line 2: SecretList: kind: unknown kind: "SecretList" of apiVersion "v1"`,
		},
		{"twice", a + "---\n" +
			a, first, "f: document 2: line 5: Namespace a: given more than once: first at f line 1"},
		{"not UTF-8", a + "---\n# \xff\n", []string{}, "f: the file is not UTF-8"},
		{"UTF-16", "\xff\xfea\x00", []string{}, "f: the file is not UTF-8"},
		{"control character", a + "---\n\x01: x\n", first, "f: document 2: line 4: control characters are not allowed"},
		{"deep", strings.Repeat("[", 200) + strings.Repeat("]", 200), []string{}, "f: document 1: line 1: " +
			strings.Repeat("[0]", 101) + ": more than 100 levels deep"},
	}
	runStreams(t, tests)
}

// A field without a value remains when a user deletes only the value. Read as absent, it would
// select everything. In the API of Kubernetes' own kinds, it means absent.
func TestNull(t *testing.T) {
	const policies = "apiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolicy\n" +
		"metadata: {name: a, creationTimestamp: null}\nspec:\n" +
		"  selector:\n  ingress:\n  - action: Allow\n    source: {nets: null, selector: ~}\n---\n" +
		"apiVersion: projectcalico.org/v3\nkind: Tier\nmetadata: {name: b}\nspec:\n---\n" +
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: c}\n" +
		"spec: {podSelector: {}, ingress: null}\n"
	resources, problems := manifest.Decode("f", []byte(policies))
	require.Equal(t, strings.Join([]string{
		"f: document 1: line 8: GlobalNetworkPolicy a: spec.ingress[0].source.nets: null is not a value: " +
			"remove the field, or set it",
		"f: document 1: line 8: GlobalNetworkPolicy a: spec.ingress[0].source.selector: null is not a value: " +
			"remove the field, or set it",
		"f: document 1: line 5: GlobalNetworkPolicy a: spec.selector: null is not a value: remove the field, or set it",
		"f: document 2: line 13: Tier b: spec: null is not a value: remove the field, or set it",
	}, "\n"), texts(problems))
	require.Equal(t, []string{"Policy/default/knp.default.c"}, keys(resources))
}

// The number of reported problems of an object is limited.
func TestProblemsOfObjectAreLimited(t *testing.T) {
	for _, value := range []string{"1", "'-'"} {
		text := "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels:\n"
		for i := range 10_000 {
			text += fmt.Sprintf("    l%d: %s\n", i, value)
		}
		resources, problems := manifest.Decode("f", []byte(text+"---\n"+namespace("b")))
		require.Equal(t, []string{"Profile/kns.b"}, keys(resources))
		require.Len(t, problems, 101)
		require.EqualError(t, problems[100],
			"f: document 1: line 1: Namespace a: there are more problems, which are not listed")
	}
}

// Numbers are decoded as by kubectl.
func TestNumbers(t *testing.T) {
	for text, want := range map[string]float64{
		"10": 10, "010": 8, "0o10": 8, "0x10": 16, "1_0": 10, "1e1": 10, "-1.5": -1.5,
	} {
		resources, problems := manifest.Decode("f",
			[]byte("apiVersion: projectcalico.org/v3\nkind: Tier\nmetadata: {name: a}\nspec: {order: "+text+"}\n"))
		require.Empty(t, problems, text)
		tier, ok := resources[0].(*policy.Tier)
		require.True(t, ok)
		require.InDelta(t, want, *tier.Order, 0, text)
	}
}

// Aliases of aliases expand to more values than fit into memory.
func TestAliasBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  annotations:\n" +
		"    a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		b.WriteString(strings.NewReplacer("N", string(rune('1'+i)), "P", string(rune('0'+i))).
			Replace("    aN: &aN [*aP, *aP, *aP, *aP, *aP, *aP, *aP, *aP, *aP, *aP]\n"))
	}
	resources, problems := manifest.Decode("f", []byte(b.String()))
	require.Empty(t, resources)
	require.Len(t, problems, 1)
	require.ErrorContains(t, problems[0], "aliases")
}

func TestErrorIdentity(t *testing.T) {
	check := func(text string, target error) {
		t.Helper()
		_, problems := manifest.Decode("f", []byte(text))
		require.Len(t, problems, 1)
		require.ErrorIs(t, problems[0], target)
	}
	check("apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n", manifest.ErrUnknownKind)
	check("apiVersion: networking.k8s.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: x}\n", manifest.ErrUnknownKind)
	check("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\nSpec: {}\n", manifest.ErrUnknownField)
	check(namespace("a")+"---\n"+namespace("a"), manifest.ErrDuplicate)
	check("apiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolicy\nmetadata: {name: x}\n"+
		"spec: {ingress: [{action: Deny, http: {}}]}\n", convert.ErrNotSupported)
	check("apiVersion: v1\nkind: Service\nmetadata: {name: x}\n", convert.ErrIgnored)
}

func TestReadDir(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"b.yaml": namespace("b"), "a.yml": namespace("a"), "c.json": `{"kind": 1}`,
		"d.yaml": namespace("b"), "README.md": "x: [", ".hidden.yaml": "x: [",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "e.yaml"), 0o700))
	resources, problems := manifest.ReadDir(dir)
	require.Equal(t, []string{"Profile/kns.a", "Profile/kns.b"}, keys(resources))
	require.Equal(t, dir+"/c.json: document 1: line 1: want an object with apiVersion and kind\n"+
		dir+"/d.yaml: document 1: line 1: Namespace b: given more than once: first at "+dir+"/b.yaml line 1",
		texts(problems))

	resources, problems = manifest.ReadFiles(filepath.Join(dir, "none.yaml"), filepath.Join(dir, "b.yaml"))
	require.Equal(t, []string{"Profile/kns.b"}, keys(resources))
	require.Len(t, problems, 1)
	require.ErrorIs(t, problems[0], os.ErrNotExist)

	_, problems = manifest.ReadDir(filepath.Join(dir, "none"))
	require.Len(t, problems, 1)
	require.ErrorIs(t, problems[0], os.ErrNotExist)
}

// A Reader uses its Converter.
func TestReaderUsesConverter(t *testing.T) {
	data, err := os.ReadFile("testdata/kubectl.yaml")
	require.NoError(t, err)
	reader := manifest.Reader{Converter: convert.Converter{Attachment: func(*corev1.Pod) convert.Attachment {
		return convert.Attachment{Interface: "veth0"}
	}}}
	resources, problems := reader.Decode("f", data)
	require.Empty(t, problems)
	endpoint, ok := resources[1].(*policy.WorkloadEndpoint)
	require.True(t, ok)
	require.Equal(t, "veth0", endpoint.Interface)
}

// FuzzDecode checks that Decode does not panic, that its resources are valid, and that its errors
// have a file.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*")
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // a folder
		}
		for _, document := range bytes.SplitAfter(data, []byte("---\n")) {
			f.Add(document)
		}
		for _, item := range bytes.Split(data, []byte("\n- ")) { // each item of a list
			f.Add(append([]byte("  "), item...))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		resources, problems := manifest.Decode("f", data)
		seen := map[policy.Key]bool{}
		for _, r := range resources {
			require.NoError(t, r.Validate())
			require.True(t, policy.Equal(r, policy.Canonical(r)))
			require.False(t, seen[r.Key()])
			seen[r.Key()] = true
		}
		for _, problem := range problems {
			var wrong *manifest.Error
			require.True(t, errors.As(problem, &wrong))
			require.Equal(t, "f", wrong.File)
			require.NotPanics(t, func() { _ = problem.Error() })
		}
	})
}

// An error has the identity of its object, as far as it can be read.
func TestErrorHasObject(t *testing.T) {
	for text, want := range map[string]convert.Object{
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n" +
			"metadata: {name: web, namespace: shop, uid: u1}\nspec: {podSelector: {}, podSelektor: {}}": {
			APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Namespace: "shop", Name: "web", UID: "u1",
		},
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n" +
			"metadata: {name: a, namespace: b.c, uid: u2}\nspec: {podSelector: {}}": {
			APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Namespace: "b.c", Name: "a", UID: "u2",
		},
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}": {APIVersion: "v1", Kind: "Secret", Name: "a"},
		"apiVersion: v1\nkind: List\nitem: []":              {Kind: "List"},
		"{":                                                 {},
	} {
		_, problems := manifest.Decode("a.yaml", []byte(text))
		require.NotEmpty(t, problems, text)
		var e *manifest.Error
		require.ErrorAs(t, problems[0], &e)
		require.Equal(t, want, e.Object, text)
	}
}
