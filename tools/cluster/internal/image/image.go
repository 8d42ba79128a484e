// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
)

// File is a file of an image: a copy of Source, a symbolic link to Link, or Content.
type File struct {
	Path    string // absolute
	Source  string // a file of the host
	Link    string
	Content string
}

// Image describes an image of one layer.
type Image struct {
	Names      []string // with which it can be started: registry/path:tag
	Files      []File
	Entrypoint []string
	Cmd        []string // arguments of Entrypoint, unless the container has its own
	Env        []string // NAME=VALUE
}

// descriptor refers to a blob. The fields are those of descriptor.md.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Write writes the archive of an image to a file.
func Write(file string, image Image) error {
	blobs, err := encode(image)
	if err == nil {
		err = writeArchive(file, blobs)
	}
	if err != nil {
		return fmt.Errorf("image %s: %w", image.Names[0], err)
	}
	return nil
}

// encode returns the files of the archive by their paths.
func encode(image Image) (map[string][]byte, error) {
	var layer bytes.Buffer
	if err := writeLayer(&layer, image.Files); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	var problem error
	blob := func(mediaType string, content []byte) descriptor {
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
		files["blobs/"+strings.ReplaceAll(digest, ":", "/")] = content
		return descriptor{MediaType: mediaType, Digest: digest, Size: len(content)}
	}
	document := func(value map[string]any) []byte {
		encoded, err := json.Marshal(value)
		problem = errors.Join(problem, err)
		return encoded
	}
	layerBlob := blob("application/vnd.oci.image.layer.v1.tar", layer.Bytes())
	config := blob("application/vnd.oci.image.config.v1+json", document(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config": map[string]any{
			"Entrypoint": image.Entrypoint, "Cmd": image.Cmd, "Env": image.Env, "WorkingDir": "/",
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layerBlob.Digest}},
	}))
	const manifestType = "application/vnd.oci.image.manifest.v1+json"
	manifest := blob(manifestType, document(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": []descriptor{layerBlob},
	}))
	var manifests []descriptor
	for _, name := range image.Names {
		named := manifest
		named.Annotations = map[string]string{
			"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name,
		}
		manifests = append(manifests, named)
	}
	files["oci-layout"] = document(map[string]any{"imageLayoutVersion": "1.0.0"})
	files["index.json"] = document(map[string]any{"schemaVersion": 2, "manifests": manifests})
	return files, problem
}

// writeArchive writes files as a tar archive.
func writeArchive(file string, files map[string][]byte) error {
	output, err := os.Create(file)
	if err != nil {
		return err
	}
	defer output.Close()
	archive := tar.NewWriter(output)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}); err != nil {
			return err
		}
		if _, err := archive.Write(files[name]); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return output.Close()
}

// writeLayer writes the files as a tar archive, and the folders that they are in.
func writeLayer(output io.Writer, files []File) error {
	archive := tar.NewWriter(output)
	folders := map[string]bool{"": true}
	var mkdir func(name string) error
	mkdir = func(name string) error {
		if folders[name] {
			return nil
		}
		folders[name] = true
		if err := mkdir(parent(name)); err != nil {
			return err
		}
		mode := int64(0o755)
		if name == "tmp" {
			mode = 0o1777
		}
		return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode})
	}
	for _, folder := range []string{"tmp", "etc", "proc", "sys", "dev"} {
		if err := mkdir(folder); err != nil {
			return err
		}
	}
	for _, file := range files {
		name := strings.TrimPrefix(file.Path, "/")
		if err := mkdir(parent(name)); err != nil {
			return err
		}
		if err := writeFile(archive, name, file); err != nil {
			return err
		}
	}
	return archive.Close()
}

func writeFile(archive *tar.Writer, name string, file File) error {
	header := &tar.Header{Name: name, Mode: 0o755}
	if file.Link != "" {
		header.Typeflag, header.Linkname = tar.TypeSymlink, file.Link
		return archive.WriteHeader(header)
	}
	content := []byte(file.Content)
	if file.Source != "" {
		var err error
		if content, err = os.ReadFile(file.Source); err != nil {
			return err
		}
	}
	header.Size = int64(len(content))
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}

func parent(name string) string {
	return name[:max(strings.LastIndexByte(name, '/'), 0)]
}
