// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/tools/cluster/internal/image"
)

// entries returns the files of an archive.
func entries(t *testing.T, archive []byte) map[string]*entry {
	t.Helper()
	found := map[string]*entry{}
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := reader.Next()
		if err == io.EOF {
			return found
		}
		require.NoError(t, err)
		content, err := io.ReadAll(reader)
		require.NoError(t, err)
		require.NotContains(t, found, header.Name)
		found[header.Name] = &entry{header, content}
	}
}

type entry struct {
	*tar.Header
	content []byte
}

func TestWrite(t *testing.T) {
	source := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(source, []byte("binary"), 0o700))
	archive := filepath.Join(t.TempDir(), "image.tar")
	require.NoError(t, image.Write(archive, image.Image{
		Names: []string{"example/a:1", "example/b:2"},
		Files: []image.File{
			{Path: "/bin/program", Source: source},
			{Path: "/bin/sh", Link: "program"},
			{Path: "/etc/passwd", Content: "root"},
		},
		Entrypoint: []string{"/bin/program"},
		Cmd:        []string{"serve"},
		Env:        []string{"PATH=/bin"},
	}))
	content, err := os.ReadFile(archive)
	require.NoError(t, err)
	files := entries(t, content)
	require.JSONEq(t, `{"imageLayoutVersion": "1.0.0"}`, string(files["oci-layout"].content))
	var index struct {
		Manifests []struct {
			Digest      string
			Size        int
			Annotations map[string]string
		}
	}
	require.NoError(t, json.Unmarshal(files["index.json"].content, &index))
	require.Len(t, index.Manifests, 2)
	for i, name := range []string{"example/a:1", "example/b:2"} {
		require.Equal(t, name, index.Manifests[i].Annotations["io.containerd.image.name"])
	}

	// Each blob has the digest and size by which others refer to it.
	blob := func(digest string, size int) []byte {
		file := files["blobs/sha256/"+digest[len("sha256:"):]]
		require.NotNil(t, file, digest)
		require.Equal(t, digest, fmt.Sprintf("sha256:%x", sha256.Sum256(file.content)))
		require.Len(t, file.content, size)
		return file.content
	}
	type reference struct {
		Digest string
		Size   int
	}
	var manifest struct {
		Config reference
		Layers []reference
	}
	require.NoError(t, json.Unmarshal(blob(index.Manifests[0].Digest, index.Manifests[0].Size), &manifest))
	var config struct {
		Config struct{ Entrypoint, Cmd, Env []string }
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	require.NoError(t, json.Unmarshal(blob(manifest.Config.Digest, manifest.Config.Size), &config))
	require.Equal(t, []string{"/bin/program"}, config.Config.Entrypoint)
	require.Equal(t, []string{"serve"}, config.Config.Cmd)
	require.Equal(t, []string{"PATH=/bin"}, config.Config.Env)
	require.Equal(t, []string{manifest.Layers[0].Digest}, config.RootFS.DiffIDs)

	layer := entries(t, blob(manifest.Layers[0].Digest, manifest.Layers[0].Size))
	require.Equal(t, "binary", string(layer["bin/program"].content))
	require.EqualValues(t, 0o755, layer["bin/program"].Mode)
	require.Equal(t, "program", layer["bin/sh"].Linkname)
	require.Equal(t, "root", string(layer["etc/passwd"].content))
	require.EqualValues(t, 0o1777, layer["tmp/"].Mode)
	require.Contains(t, layer, "bin/")
}

func TestWriteReportsMissingFiles(t *testing.T) {
	err := image.Write(filepath.Join(t.TempDir(), "image.tar"), image.Image{
		Names: []string{"example/a:1"}, Files: []image.File{{Path: "/a", Source: "/does/not/exist"}},
	})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "image example/a:1")
}
