import jax
import pytest

from poise.system.compile_cache import use_compile_cache


@pytest.fixture(autouse=True)
def unchanged_cache():
    """Starts without a cache, and restores the cache of this process afterwards."""
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    jax.config.update("jax_compilation_cache_dir", before)


def test_programs_are_kept_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("POISE_PROGRAM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert use_compile_cache() == tmp_path / "poise" / "programs"
    assert jax.config.values["jax_compilation_cache_dir"] == str(tmp_path / "poise" / "programs")


def test_a_variable_names_another_folder_or_none(monkeypatch, tmp_path):
    monkeypatch.setenv("POISE_PROGRAM_CACHE", "")
    assert use_compile_cache() is None
    monkeypatch.setenv("POISE_PROGRAM_CACHE", str(tmp_path / "other"))
    assert use_compile_cache() == tmp_path / "other"


def test_a_cache_that_the_user_configured_is_not_changed(tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    assert use_compile_cache() == tmp_path


def test_a_folder_that_cannot_be_created_means_no_cache(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("POISE_PROGRAM_CACHE", str(tmp_path / "file" / "below"))
    assert use_compile_cache() is None
