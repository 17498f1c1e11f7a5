"""Vision transformers and their parts as timm names them. Source: Dosovitskiy et al. 2020; Touvron et al. 2020 (DeiT)."""

import torch
from torch import nn


class DropPath(nn.Module):
    def __init__(self, drop_prob=0.0, scale_by_keep=True):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        if self.drop_prob == 0.0:
            return x
        kept = x.new_empty((x.shape[0], 1, 1)).bernoulli_(1 - self.drop_prob)
        return x * kept


class Mlp(nn.Module):
    def __init__(
        self,
        in_features,
        hidden_features=None,
        out_features=None,
        act_layer=nn.GELU,
        norm_layer=None,
        bias=True,
        drop=0.0,
        use_conv=False,
    ):
        super().__init__()
        hidden = hidden_features or in_features
        self.fc1 = nn.Linear(in_features, hidden, bias=bias)
        self.act = act_layer()
        self.drop1 = nn.Dropout(drop)
        self.norm = norm_layer(hidden) if norm_layer is not None else nn.Identity()
        self.fc2 = nn.Linear(hidden, out_features or in_features, bias=bias)
        self.drop2 = nn.Dropout(drop)

    def forward(self, x):
        return self.drop2(self.fc2(self.norm(self.drop1(self.act(self.fc1(x))))))


class Attention(nn.Module):
    def __init__(
        self,
        dim,
        num_heads=8,
        qkv_bias=False,
        qk_norm=False,
        proj_bias=True,
        attn_drop=0.0,
        proj_drop=0.0,
        norm_layer=nn.LayerNorm,
    ):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.scale = self.head_dim**-0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.q_norm = norm_layer(self.head_dim) if qk_norm else nn.Identity()
        self.k_norm = norm_layer(self.head_dim) if qk_norm else nn.Identity()
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim, bias=proj_bias)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        x = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x.transpose(1, 2).reshape(B, N, C)
        return self.proj_drop(self.proj(x))


class LayerScale(nn.Module):
    def __init__(self, dim, init_values=1e-5, inplace=False):
        super().__init__()
        self.gamma = nn.Parameter(init_values * torch.ones(dim))

    def forward(self, x):
        return x * self.gamma


class Block(nn.Module):
    def __init__(
        self,
        dim,
        num_heads,
        mlp_ratio=4.0,
        qkv_bias=False,
        qk_norm=False,
        proj_bias=True,
        proj_drop=0.0,
        attn_drop=0.0,
        init_values=None,
        drop_path=0.0,
        act_layer=nn.GELU,
        norm_layer=nn.LayerNorm,
        mlp_layer=Mlp,
        drop=0.0,
    ):
        super().__init__()
        self.norm1 = norm_layer(dim)
        self.attn = Attention(
            dim,
            num_heads=num_heads,
            qkv_bias=qkv_bias,
            qk_norm=qk_norm,
            proj_bias=proj_bias,
            attn_drop=attn_drop,
            proj_drop=proj_drop or drop,
            norm_layer=norm_layer,
        )
        self.ls1 = LayerScale(dim, init_values) if init_values else nn.Identity()
        self.drop_path1 = DropPath(drop_path) if drop_path > 0.0 else nn.Identity()
        self.norm2 = norm_layer(dim)
        self.mlp = mlp_layer(
            in_features=dim,
            hidden_features=int(dim * mlp_ratio),
            act_layer=act_layer,
            bias=proj_bias,
            drop=proj_drop or drop,
        )
        self.ls2 = LayerScale(dim, init_values) if init_values else nn.Identity()
        self.drop_path2 = DropPath(drop_path) if drop_path > 0.0 else nn.Identity()

    def forward(self, x):
        x = x + self.drop_path1(self.ls1(self.attn(self.norm1(x))))
        return x + self.drop_path2(self.ls2(self.mlp(self.norm2(x))))


class PatchEmbed(nn.Module):
    def __init__(
        self,
        img_size=224,
        patch_size=16,
        in_chans=3,
        embed_dim=768,
        norm_layer=None,
        flatten=True,
        output_fmt=None,
        bias=True,
        strict_img_size=True,
        dynamic_img_pad=False,
    ):
        super().__init__()
        image = img_size if isinstance(img_size, (tuple, list)) else (img_size, img_size)
        patch = patch_size if isinstance(patch_size, (tuple, list)) else (patch_size, patch_size)
        self.img_size = image
        self.patch_size = patch
        self.grid_size = (image[0] // patch[0], image[1] // patch[1])
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        self.flatten = flatten
        self.proj = nn.Conv2d(in_chans, embed_dim, kernel_size=patch, stride=patch, bias=bias)
        self.norm = norm_layer(embed_dim) if norm_layer else nn.Identity()

    def forward(self, x):
        x = self.proj(x)
        if self.flatten:
            x = x.flatten(2).transpose(1, 2)
        return self.norm(x)


class VisionTransformer(nn.Module):
    def __init__(
        self,
        img_size=224,
        patch_size=16,
        in_chans=3,
        num_classes=1000,
        global_pool="token",
        embed_dim=768,
        depth=12,
        num_heads=12,
        mlp_ratio=4.0,
        qkv_bias=True,
        class_token=True,
        drop_rate=0.0,
        proj_drop_rate=0.0,
        attn_drop_rate=0.0,
        drop_path_rate=0.0,
    ):
        super().__init__()
        self.num_classes = num_classes
        self.num_features = embed_dim
        self.embed_dim = embed_dim
        self.head_hidden_size = embed_dim
        self.global_pool = global_pool
        self.patch_embed = PatchEmbed(img_size, patch_size, in_chans, embed_dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim)) if class_token else None
        count = self.patch_embed.num_patches + (1 if class_token else 0)
        self.pos_embed = nn.Parameter(torch.randn(1, count, embed_dim))
        self.pos_drop = nn.Dropout(drop_rate)
        self.blocks = nn.Sequential(
            *[
                Block(embed_dim, num_heads, mlp_ratio, qkv_bias, proj_drop=proj_drop_rate, drop_path=drop_path_rate)
                for _ in range(depth)
            ]
        )
        self.norm = nn.LayerNorm(embed_dim, eps=1e-6)
        self.head = nn.Linear(embed_dim, num_classes) if num_classes else nn.Identity()

    def get_classifier(self):
        return self.head

    def reset_classifier(self, num_classes, global_pool=None):
        self.head = nn.Linear(self.embed_dim, num_classes) if num_classes else nn.Identity()

    def forward_features(self, x):
        x = self.patch_embed(x)
        if self.cls_token is not None:
            x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1)
        return self.norm(self.blocks(self.pos_drop(x + self.pos_embed)))

    def forward_head(self, x, pre_logits=False):
        if self.global_pool == "avg":
            x = x[:, 1:].mean(dim=1)
        elif self.global_pool:
            x = x[:, 0]
        return x if pre_logits else self.head(x)

    def forward(self, x):
        return self.forward_head(self.forward_features(x))


def vit_tiny_patch16_224(pretrained=False, **kwargs):
    return VisionTransformer(**{"embed_dim": 192, "num_heads": 3, **kwargs})


def vit_small_patch16_224(pretrained=False, **kwargs):
    return VisionTransformer(**{"embed_dim": 384, "num_heads": 6, **kwargs})


def vit_small_patch32_224(pretrained=False, **kwargs):
    return VisionTransformer(**{"patch_size": 32, "embed_dim": 384, "num_heads": 6, **kwargs})


def vit_base_patch16_224(pretrained=False, **kwargs):
    return VisionTransformer(**kwargs)


def vit_base_patch16_384(pretrained=False, **kwargs):
    return VisionTransformer(**{"img_size": 384, **kwargs})


def vit_base_patch32_224(pretrained=False, **kwargs):
    return VisionTransformer(**{"patch_size": 32, **kwargs})


def vit_large_patch16_224(pretrained=False, **kwargs):
    return VisionTransformer(**{"embed_dim": 1024, "depth": 24, "num_heads": 16, **kwargs})


def vit_huge_patch14_224(pretrained=False, **kwargs):
    return VisionTransformer(**{"patch_size": 14, "embed_dim": 1280, "depth": 32, "num_heads": 16, **kwargs})


def deit_tiny_patch16_224(pretrained=False, **kwargs):
    return VisionTransformer(**{"embed_dim": 192, "num_heads": 3, **kwargs})


def deit_small_patch16_224(pretrained=False, **kwargs):
    return VisionTransformer(**{"embed_dim": 384, "num_heads": 6, **kwargs})


def deit_base_patch16_224(pretrained=False, **kwargs):
    return VisionTransformer(**kwargs)
