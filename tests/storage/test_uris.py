from pathlib import Path

import pytest

from omnigraph.errors import BadRequest
from omnigraph.storage.uris import Root

ODD = "a graph é%20#~[1]"


class TestLocal:
    def test_relative_paths_become_absolute(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for text in ["graph", "./graph", "x/../graph", "graph/", "graph//", "x/./../graph/."]:
            assert Root.parse(text).canonical == str(tmp_path / "graph")

    def test_all_aliases_of_a_place_are_one_root(self, tmp_path, monkeypatch):
        real = tmp_path / "real" / ODD
        real.mkdir(parents=True)
        (tmp_path / "link").symlink_to(real)
        (tmp_path / "chain").symlink_to(tmp_path / "link")
        monkeypatch.chdir(real.parent)
        encoded = real.as_uri()
        aliases = [
            str(real),
            f"{real}/",
            real,
            ODD,
            f"./{ODD}",
            f"{tmp_path}/link",
            tmp_path / "chain",
            f"{tmp_path}/link/",
            encoded,
            f"{encoded}/",
            encoded.replace("file://", "file://localhost"),
            encoded.replace("file://", "FILE://"),
            encoded.replace("file:///", "file:/"),
            (tmp_path / "link").as_uri(),
        ]
        roots = {Root.parse(alias) for alias in aliases}
        assert len(roots) == 1
        assert roots.pop().canonical == str(real)

    def test_two_dots_after_a_link_go_where_the_kernel_goes(self, tmp_path):
        (tmp_path / "far/away").mkdir(parents=True)
        (tmp_path / "link").symlink_to(tmp_path / "far/away")
        assert Root.parse(f"{tmp_path}/link/../graph").path == str(tmp_path / "far/graph")

    def test_the_place_need_not_exist(self, tmp_path):
        assert Root.parse(tmp_path / "not/yet").path == str(tmp_path / "not/yet")

    def test_a_tilde_is_a_character(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert Root.parse("~/graph").path == str(tmp_path / "~" / "graph")

    def test_file_uris_are_decoded(self):
        assert Root.parse("file:///data/a%20b%23%25/graph").path == "/data/a b#%/graph"
        assert Root.parse("file:///data/./x/../graph").path == "/data/graph"

    def test_a_plain_path_is_not_decoded(self):
        assert Root.parse("/data/a%20b#c").path == "/data/a%20b#c"

    def test_a_path_object_is_never_a_uri(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert Root.parse(Path("s3:/bucket")).path == str(tmp_path / "s3:" / "bucket")

    def test_a_name_with_a_colon_is_a_path(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert Root.parse("graph:v2").path == str(tmp_path / "graph:v2")

    @pytest.mark.parametrize(
        "target",
        [
            "",
            "file://",
            "nul\0",
            "new\nline",
            "what?",
            "file:///what%3F",
            "file:///raw?query",
            "file:///raw#fragment",
            "file://elsewhere/data",
            "file:///%FF%FE",
            "file:///\ud800",
            "file://[",
        ],
    )
    def test_refused(self, target):
        with pytest.raises(BadRequest):
            Root.parse(target)

    def test_a_question_mark_that_a_link_brings_in_is_refused_too(self, tmp_path):
        (tmp_path / "what?").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "what?")
        with pytest.raises(BadRequest, match="branches"):
            Root.parse(tmp_path / "link")

    def test_needs_no_options(self):
        assert Root.parse("/data").lance_options({"AWS_REGION": "x"}) == {}


class TestS3:
    def test_bucket_and_prefix(self):
        for text in ["s3://my-bucket/a/b", "s3://my-bucket/a/b/", "S3://my-bucket/a/b//"]:
            root = Root.parse(text)
            assert (root.bucket, root.path) == ("my-bucket", "a/b")
            assert root.canonical == "s3://my-bucket/a/b"

    def test_the_top_of_a_bucket(self):
        assert Root.parse("s3://my-bucket") == Root.parse("s3://my-bucket/")
        assert Root.parse("s3://my-bucket").canonical == "s3://my-bucket"
        assert Root.parse("s3://my-bucket").child("nodes/x") == "s3://my-bucket/nodes/x"

    def test_the_key_is_taken_as_written(self):
        root = Root.parse("s3://my-bucket/a b%20#é")
        assert root.path == "a b%20#é"
        assert root.child("nodes/1f") == "s3://my-bucket/a%20b%2520%23%C3%A9/nodes/1f"

    @pytest.mark.parametrize(
        "target",
        [
            "s3://",
            "s3:///key",
            "s3://user@bucket/x",
            "s3://b/x",
            "s3://bucket/a//b",
            "s3://bucket/../b",
            "s3://bucket/./b",
            "s3://bucket//b",
            "s3://bucket/a?b",
            "s3://bucket/a\tb",
        ],
    )
    def test_refused(self, target):
        with pytest.raises(BadRequest):
            Root.parse(target)


class TestHadoopsName:
    @pytest.mark.parametrize(
        "target", ["s3a://my-bucket/g", "S3A://my-bucket/g/", "S3://my-bucket/g"]
    )
    def test_is_the_same_place(self, target):
        assert Root.parse(target) == Root.parse("s3://my-bucket/g")
        assert Root.parse(target).canonical == "s3://my-bucket/g"


class TestOtherSchemes:
    @pytest.mark.parametrize("target", ["http://host/graph", "https://host", "HTTP://host"])
    def test_a_server_is_no_root(self, target):
        with pytest.raises(BadRequest, match="server") as caught:
            Root.parse(target)
        assert "not a place to store a graph; give a local path" in str(caught.value)

    @pytest.mark.parametrize(
        "target", ["gs://b/x", "az://b", "memory://x", "s3n://b/x", "db+x://y"]
    )
    def test_others_are_refused_with_the_list_of_what_works(self, target):
        with pytest.raises(BadRequest) as caught:
            Root.parse(target)
        for supported in ["local path", "file://", "s3://bucket/prefix"]:
            assert supported in str(caught.value)


class TestOptions:
    root = Root.parse("s3://my-bucket/x")

    def options(self, **variables):
        return self.root.lance_options(variables)

    def test_nothing_set_nothing_given(self):
        assert self.options() == {}

    def test_each_variable(self):
        assert self.options(
            AWS_REGION="eu-west-1",
            AWS_ACCESS_KEY_ID="id",
            AWS_SECRET_ACCESS_KEY="secret",
            AWS_SESSION_TOKEN="token",
            AWS_ENDPOINT_URL="https://store.example",
            AWS_S3_FORCE_PATH_STYLE="true",
            AWS_ALLOW_HTTP="false",
        ) == {
            "aws_region": "eu-west-1",
            "aws_access_key_id": "id",
            "aws_secret_access_key": "secret",
            "aws_session_token": "token",
            "aws_endpoint": "https://store.example",
            "aws_virtual_hosted_style_request": "false",
            "allow_http": "false",
        }

    def test_the_endpoint_of_s3_wins_over_the_general_one(self):
        options = self.options(
            AWS_ENDPOINT_URL="https://general", AWS_ENDPOINT_URL_S3="https://special"
        )
        assert options["aws_endpoint"] == "https://special"

    def test_an_empty_variable_is_not_set(self):
        assert self.options(AWS_REGION="", AWS_ENDPOINT_URL_S3=" ", AWS_ALLOW_HTTP="") == {}

    def test_virtual_hosts_at_a_custom_endpoint(self):
        options = self.options(
            AWS_ENDPOINT_URL="https://store.example:9000/", AWS_S3_FORCE_PATH_STYLE="false"
        )
        assert options["aws_virtual_hosted_style_request"] == "true"
        assert options["aws_endpoint"] == "https://my-bucket.store.example:9000"

    def test_an_unencrypted_endpoint_must_be_allowed(self):
        with pytest.raises(BadRequest, match="AWS_ALLOW_HTTP=true"):
            self.options(AWS_ENDPOINT_URL="http://localhost:9000")
        for yes in ["true", "1", "TRUE", "yes", "on"]:
            options = self.options(AWS_ENDPOINT_URL="http://localhost:9000", AWS_ALLOW_HTTP=yes)
            assert options["aws_endpoint"] == "http://localhost:9000"
            assert options["allow_http"] == "true"

    @pytest.mark.parametrize(
        ("variables", "named"),
        [
            ({"AWS_ACCESS_KEY_ID": "id"}, "AWS_SECRET_ACCESS_KEY"),
            ({"AWS_SECRET_ACCESS_KEY": "secret"}, "AWS_ACCESS_KEY_ID"),
            ({"AWS_ALLOW_HTTP": "maybe"}, "AWS_ALLOW_HTTP"),
            ({"AWS_S3_FORCE_PATH_STYLE": "2"}, "AWS_S3_FORCE_PATH_STYLE"),
            ({"AWS_ENDPOINT_URL": "localhost:9000"}, "AWS_ENDPOINT_URL"),
            ({"AWS_ENDPOINT_URL_S3": "ftp://x"}, "AWS_ENDPOINT_URL_S3"),
        ],
    )
    def test_what_cannot_be_used_is_refused_by_name(self, variables, named):
        with pytest.raises(BadRequest, match=named):
            self.options(**variables)

    def test_are_read_when_asked_for(self, monkeypatch):
        monkeypatch.setenv("AWS_REGION", "one")
        assert self.root.lance_options()["aws_region"] == "one"
        monkeypatch.setenv("AWS_REGION", "two")
        assert self.root.lance_options()["aws_region"] == "two"


class TestChild:
    def test_a_plain_path_stays_a_path(self):
        root = Root.parse("/data/my graph (v1.2)")
        assert root.child("nodes/1f") == "/data/my graph (v1.2)/nodes/1f"

    def test_the_root_of_the_disk(self):
        assert Root.parse("/").child("__manifest") == "/__manifest"

    @pytest.mark.parametrize("name", ["plain", "my graph (v1.2)_+,=@:;&!$'-", ODD, '{x}\\^`|<>"*'])
    def test_lance_writes_under_the_root_and_nowhere_else(self, tmp_path, name):
        import lance
        import pyarrow as pa

        root = Root.parse(tmp_path / name)
        address = root.child("nodes/table")
        table = lance.write_dataset(pa.table({"a": [1]}), address)
        branch = table.create_branch("feature/x", 1)
        branch.insert(pa.table({"a": [2]}))
        again = lance.dataset(address).checkout_version(("feature/x", None))
        assert again.to_table().to_pydict() == {"a": [1, 2]}
        assert lance.dataset(address).count_rows() == 1
        assert [entry.name for entry in tmp_path.iterdir()] == [name]
        assert (tmp_path / name / "nodes/table/tree/feature/x").is_dir()
