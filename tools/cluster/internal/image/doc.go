// SPDX-License-Identifier: Apache-2.0

// Package image writes container images from files of the host, as archives that container runtimes
// import. The format is the OCI image layout (https://github.com/opencontainers/image-spec,
// image-layout.md).
//
// # Usage
//
//	err := image.Write("pause.tar", image.Image{
//		Names:      []string{"example/pause:dev"},
//		Files:      []image.File{{Path: "/pause", Source: "bin/pause"}},
//		Entrypoint: []string{"/pause"},
//	})
//
// # Concurrency
//
// Several goroutines may call Write at the same time if each writes a different archive.
//
// # Errors
//
// Write returns the errors of files that cannot be read or written, with the image's name.
package image
