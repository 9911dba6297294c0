package service

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/rungci/rung/steps/engine"
)

// runFolder is the folder of a run, which the engine fills. Its name is what traces know as that of a run's own folder.
func (s *Service) runFolder(number int64) (string, error) {
	path := s.folderOf(number)
	return path, os.Mkdir(path, 0o700)
}

func (s *Service) folderOf(number int64) string {
	return filepath.Join(s.folder, fmt.Sprint(engine.FolderPrefix, number))
}
